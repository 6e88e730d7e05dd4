"""The training step of a supernet on a GPU in plain PyTorch: what bench/device compares ours with.

    torch_masked.py version
    torch_masked.py time PROGRAM PRECISION    "step K" on stdin runs K steps and prints the seconds of each

Widths are masks, since random shapes would make cuDNN plan anew in every step. A
program (JSON, written by bench/device) lists the operations of the network and, for
each step and network, the channels that each operation keeps. PRECISION is float32,
tf32 or bf16 (autocast). Maps are channels last. Needs torch and nothing else.
"""

import json
import sys
import time

import torch
import torch.nn.functional as F

ACTIVATIONS = {
    "": lambda x: x,
    "relu": F.relu_,
    "relu6": lambda x: F.hardtanh_(x, 0.0, 6.0),
    "silu": lambda x: F.silu(x, inplace=True),
    "sigmoid": torch.sigmoid,
}


class Network:
    def __init__(self, ops, device):
        self.ops = ops
        self.parameters = {}
        generator = torch.Generator().manual_seed(1)
        for op in ops:
            name, out = op["name"], op["out"]
            if op["kind"] in ("conv", "depthwise", "linear"):
                inner = op["in"] // op["groups"]
                shape = [out, inner] if op["kind"] == "linear" else [out, inner, op["kernel"], op["kernel"]]
                w = torch.randn(shape, generator=generator) * (2.0 / (inner * op["kernel"] ** 2)) ** 0.5
                w = w.to(device)
                self.parameters[name + ".weight"] = w.contiguous(memory_format=torch.channels_last) if w.dim() == 4 else w
            if op["bias"]:
                self.parameters[name + ".bias"] = torch.zeros(out, device=device)
            if op["norm"]:
                self.parameters[name + ".scale"] = torch.ones(out, device=device)
                self.parameters[name + ".shift"] = torch.zeros(out, device=device)
        for p in self.parameters.values():
            p.requires_grad_()

    def forward(self, x, masks):
        p, maps = self.parameters, [None] * len(self.ops) + [x]  # operand -1 is the input
        for i, op in enumerate(self.ops):
            name, kind = op["name"], op["kind"]
            x = [maps[j] for j in op["operands"]]
            if kind in ("conv", "depthwise"):
                y = F.conv2d(x[0], p[name + ".weight"], p.get(name + ".bias"), op["stride"], op["padding"], 1, op["groups"])
            elif kind == "linear":
                y = F.linear(x[0].flatten(1), p[name + ".weight"], p.get(name + ".bias"))[:, :, None, None]
            elif kind == "maxpool":
                y = F.max_pool2d(x[0], op["kernel"], op["stride"], op["padding"])
            elif kind == "avgpool":
                y = F.avg_pool2d(x[0], op["kernel"], op["stride"], op["padding"])
            elif kind == "globalpool":
                y = x[0].mean((2, 3), keepdim=True)
            elif kind == "mul":
                y = x[0] * x[1]
            else:
                y = x[0]
                for other in x[1:]:
                    y = y + other
            if op["norm"]:
                y = F.batch_norm(y, None, None, p[name + ".scale"], p[name + ".shift"], True, 0.0, op["eps"])
            if masks[i] is not None:
                y = y * masks[i]
            maps[i] = ACTIVATIONS[op["activation"]](y)
        return maps[len(self.ops) - 1].flatten(1)


class Trainer:
    def __init__(self, path, precision):
        with open(path) as f:
            program = json.load(f)
        torch.backends.cudnn.benchmark = True
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision != "float32"
        self.bf16 = precision == "bf16"
        device = torch.device("cuda")
        self.network = Network(program["ops"], device)
        # Masks are on the device before the clock runs.
        self.steps = []
        for step in program["steps"]:
            networks = []
            for widths in step:
                masks = []
                for op, width in zip(program["ops"], widths):
                    # A depthwise convolution, a sum or a pooling of what is masked is masked.
                    needs = width < op["out"] and (op["norm"] or op["kind"] in ("conv", "linear"))
                    masks.append((torch.arange(op["out"], device=device) < width).float().view(1, -1, 1, 1) if needs else None)
                networks.append(masks)
            self.steps.append(networks)
        shape = [program["batch"], program["channels"], program["height"], program["width"]]
        self.images = torch.randn(shape, device=device).contiguous(memory_format=torch.channels_last)
        self.labels = torch.randint(program["classes"], shape[:1], device=device)
        self.optimiser = torch.optim.SGD(self.network.parameters.values(), lr=0.01, momentum=0.9, weight_decay=5e-5, foreach=True)
        self.at = 0

    def step(self):
        networks = self.steps[self.at % len(self.steps)]
        self.at += 1
        self.optimiser.zero_grad(set_to_none=True)
        teacher = None
        for masks in networks:
            with torch.autocast("cuda", torch.bfloat16, enabled=self.bf16):
                logits = self.network.forward(self.images, masks)
            logits = logits.float()
            loss = F.cross_entropy(logits, self.labels)
            if teacher is None:
                teacher = F.softmax(logits.detach(), 1)
            else:
                loss = loss + F.cross_entropy(logits, teacher)
            loss.backward()
        self.optimiser.step()
        return loss


def main():
    if sys.argv[1] == "version":
        print(torch.__version__)
        return
    trainer = Trainer(sys.argv[2], sys.argv[3])
    print("ready", flush=True)
    for line in sys.stdin:
        words = line.split()
        if len(words) != 2 or words[0] != "step" or not words[1].isdigit():
            print(f"error: command {line.strip()!r}; want step K", flush=True)
            continue
        seconds = []
        for _ in range(int(words[1])):
            torch.cuda.synchronize()
            start = time.perf_counter()
            loss = trainer.step()
            loss.item()
            torch.cuda.synchronize()
            seconds.append(time.perf_counter() - start)
        print(*seconds, flush=True)


main()
