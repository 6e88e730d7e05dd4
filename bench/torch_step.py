"""The training step of a supernet in plain PyTorch: what bench compares ours with.

    torch_step.py version
    torch_step.py steps  PROGRAM WEIGHTS IMAGES OUT   run all steps; losses, gradients and weights go to the folder OUT
    torch_step.py time   PROGRAM WEIGHTS IMAGES       "step K" on stdin runs K steps and prints seconds
    torch_step.py memory PROGRAM WEIGHTS IMAGES K     resident bytes before the first step, and the most during K steps

A program (JSON, written by bench) lists the networks of every step as operations
that run, in order, with all that they need: nothing here knows how a subnetwork is
chosen. A network takes the first channels of weights that all networks share.
WEIGHTS is a safetensors file; IMAGES is raw float32, batch after batch, channels
first. Needs torch and nothing else.
"""

import argparse
import json
import os
import struct
import sys
import time

import torch
import torch.nn.functional as F

STATISTICS = ("running_mean", "running_var")  # of the whole network; training does not read them


def load(path):
    """The tensors of a safetensors file, all float32, and the file's metadata."""
    with open(path, "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        data = bytearray(f.read())
    metadata = header.pop("__metadata__", {})
    tensors = {}
    for name, entry in header.items():
        if entry["dtype"] != "F32":
            raise ValueError(f"tensor {name!r} is {entry['dtype']}; want F32")
        begin, end = entry["data_offsets"]
        tensors[name] = torch.frombuffer(data, dtype=torch.float32, count=(end - begin) // 4, offset=begin).reshape(entry["shape"]).clone()
    return tensors, metadata


def save(path, tensors, metadata):
    """Writes tensors as float32."""
    header, at = {"__metadata__": metadata}, 0
    for name, t in tensors.items():
        size = 4 * t.numel()
        header[name] = {"dtype": "F32", "shape": list(t.shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)))
        f.write(text)
        for t in tensors.values():
            f.write(t.detach().to(torch.float32).contiguous().numpy().tobytes())


class Weights:
    """The parameters of the whole network, and the part of them that a network takes."""

    def __init__(self, path, how, dtype, layout):
        tensors, self.metadata = load(path)
        self.how = how
        self.names = list(tensors)
        self.parameters = {}
        for name, t in tensors.items():
            if name.rsplit(".", 1)[-1] in STATISTICS:
                continue
            t = t.to(dtype)
            if t.dim() == 4:
                t = t.contiguous(memory_format=layout)
            self.parameters[name] = t.requires_grad_()
        self.statistics = {n: t for n, t in tensors.items() if n not in self.parameters}
        self.layout = layout
        self.leaves = []

    def take(self, name, out, inner=None):
        """The first channels of a parameter."""
        p = self.parameters[name]
        if p.shape[0] == out and (inner is None or p.shape[1] == inner):
            return p
        if self.how == "leaf":
            # What autograd would do for a slice, a whole tensor of zeros with the
            # slice's gradient in it, is saved by a leaf of its own.
            with torch.no_grad():
                part = p[:out] if inner is None else p[:out, :inner]
                leaf = part.contiguous(memory_format=self.layout) if part.dim() == 4 else part.clone()
            leaf.requires_grad_()
            self.leaves.append((p, leaf))
            return leaf
        part = p[:out] if inner is None else p[:out, :inner]
        if self.how == "contiguous" and part.dim() == 4:
            part = part.contiguous(memory_format=self.layout)
        return part

    def gather(self):
        """Adds the gradients of leaves to those of the parameters they are part of."""
        with torch.no_grad():
            for p, leaf in self.leaves:
                if leaf.grad is None:
                    continue
                if p.grad is None:
                    p.grad = torch.zeros_like(p)
                p.grad[tuple(slice(n) for n in leaf.shape)].add_(leaf.grad)
        self.leaves = []


ACTIVATIONS = {
    "": lambda x: x,
    "relu": F.relu_,
    "relu6": lambda x: F.hardtanh_(x, 0.0, 6.0),
    "silu": lambda x: F.silu(x, inplace=True),
    "sigmoid": torch.sigmoid,
}


def compute(weights, op, x):
    """An operation before batch norm and activation."""
    kind, name = op["kind"], op["name"]
    if kind in ("conv", "depthwise", "linear"):
        w = weights.take(name + ".weight", op["out"], op["in"] // op["groups"])
        b = weights.take(name + ".bias", op["out"]) if op["bias"] else None
        if kind == "linear":
            return F.linear(x[0].flatten(1), w, b)[:, :, None, None]
        return F.conv2d(x[0], w, b, op["stride"], op["padding"], 1, op["groups"])
    if kind == "maxpool":
        return F.max_pool2d(x[0], op["kernel"], op["stride"], op["padding"])
    if kind == "avgpool":
        return F.avg_pool2d(x[0], op["kernel"], op["stride"], op["padding"], count_include_pad=True)
    if kind == "globalpool":
        return x[0].mean((2, 3), keepdim=True)
    if kind == "mul":
        return x[0] * x[1]
    if kind == "add":
        # An operand that nobody else reads and no gradient needs takes the sum.
        total = x[0].add_(x[1]) if op["over"] else x[0] + x[1]
        for other in x[2:]:
            total = total + other
        return total
    raise ValueError(f"operation {name!r} is of kind {kind!r}")


def forward(weights, ops, output, images, statistics=None):
    """The logits of a network with the statistics of the batch."""
    maps = [None] * len(ops) + [images]  # operand -1 is the input
    for i, op in enumerate(ops):
        y = compute(weights, op, [maps[j] for j in op["operands"]])
        for j in op["last"]:  # nobody reads them after this
            maps[j] = None
        if op["norm"]:
            if statistics is not None:
                statistics[op["name"]] = (y.mean((0, 2, 3)), y.var((0, 2, 3), unbiased=False))
            scale = weights.take(op["name"] + ".norm.weight", op["out"])
            shift = weights.take(op["name"] + ".norm.bias", op["out"])
            y = F.batch_norm(y, None, None, scale, shift, True, 0.0, op["eps"])
        maps[i] = ACTIVATIONS[op["activation"]](y)
    return maps[output].flatten(1)


def plan(ops, output):
    """Adds to operations what follows from all of them: when a map is read last, and where a sum may go."""
    readers = [0] * (len(ops) + 1)
    last = {}
    for i, op in enumerate(ops):
        for j in op["operands"]:
            readers[j] += 1
            last[j] = i
    for op in ops:
        op["last"] = []
    for j, i in last.items():
        if j >= 0 and j != output:
            ops[i]["last"].append(j)
    for op in ops:
        if op["kind"] == "add":
            j = op["operands"][0]
            plain = j >= 0 and j != output and ops[j]["activation"] == "" and ops[j]["kind"] not in ("maxpool", "mul", "linear", "globalpool")
            op["over"] = plain and readers[j] == 1


class Trainer:
    def __init__(self, args):
        with open(args.program) as f:
            program = json.load(f)
        self.dtype = torch.float64 if args.float64 else torch.float32
        layout = torch.channels_last if args.layout == "channels_last" else torch.contiguous_format
        self.weights = Weights(args.weights, args.slices, self.dtype, layout)
        self.steps = program["steps"]
        for step in self.steps:
            for network in step["networks"]:
                plan(network["ops"], network["output"])
        shape = [program["batch"], program["channels"], program["height"], program["width"]]
        raw = torch.from_file(args.images, shared=False, size=len(self.steps) * shape[0] * shape[1] * shape[2] * shape[3], dtype=torch.float32)
        self.images = [x.to(self.dtype).contiguous(memory_format=layout) for x in raw.reshape([len(self.steps)] + shape)]
        self.labels = [torch.tensor(step["labels"]) for step in self.steps]
        self.joint = args.joint
        plain = set(program["without_decay"])
        names = self.weights.parameters
        self.optimiser = torch.optim.SGD(
            [
                {"params": [p for n, p in names.items() if n not in plain]},
                {"params": [p for n, p in names.items() if n in plain], "weight_decay": 0.0},
            ],
            lr=0.0, momentum=program["momentum"], weight_decay=program["decay"], nesterov=program["nesterov"], foreach=args.foreach)

    def gradients(self, k, statistics=None):
        """Accumulates the gradients of step k; gives losses and logits of its networks."""
        self.optimiser.zero_grad(set_to_none=True)
        images, labels = self.images[k], self.labels[k]
        losses, all_logits, softmax = [], [], []
        total = 0.0
        networks = self.steps[k]["networks"]
        for i, network in enumerate(networks):
            seen = None if statistics is None else {}
            logits = forward(self.weights, network["ops"], network["output"], images, seen)
            loss = 0.0
            if network["label"]:
                loss = loss + network["label"] * F.cross_entropy(logits, labels)
            if network["soft"]:
                loss = loss + network["soft"] * F.cross_entropy(logits, softmax[network["teacher"]])
            teaches = any(n["soft"] and n["teacher"] == i for n in networks)
            softmax.append(F.softmax(logits.detach(), 1) if teaches else None)
            if self.joint:
                total = total + loss
            else:
                loss.backward()
                self.weights.gather()
            losses.append(loss.detach())
            if statistics is not None:
                all_logits.append(logits.detach())
                statistics.append(seen)
        if self.joint:
            total.backward()
            self.weights.gather()
        return losses, all_logits

    def update(self, k):
        for group in self.optimiser.param_groups:
            group["lr"] = self.steps[k]["rate"]
        self.optimiser.step()

    def step(self, k):
        losses, _ = self.gradients(k)
        self.update(k)
        return losses

    def dump(self, path, values):
        """Writes one tensor for every tensor of the weights' file; statistics stay as they are there."""
        save(path, {n: self.weights.statistics[n] if n in self.weights.statistics else values(self.weights.parameters[n]) for n in self.weights.names},
             self.weights.metadata)


def steps(trainer, out):
    report = []
    for k in range(len(trainer.steps)):
        statistics = []
        losses, logits = trainer.gradients(k, statistics)
        trainer.dump(os.path.join(out, f"gradients{k}.safetensors"), lambda p: torch.zeros_like(p) if p.grad is None else p.grad)
        trainer.update(k)
        trainer.dump(os.path.join(out, f"weights{k}.safetensors"), lambda p: p)
        report.append({
            "losses": [x.item() for x in losses],
            "logits": [x.flatten().tolist() for x in logits],
            "statistics": [{n: {"mean": m.tolist(), "variance": v.tolist()} for n, (m, v) in s.items()} for s in statistics],
        })
    json.dump(report, sys.stdout)


def serve(trainer):
    print("ready", flush=True)
    for line in sys.stdin:
        words = line.split()
        if len(words) != 2 or words[0] != "step" or not words[1].isdigit():
            print(f"error: command {line.strip()!r}; want step K", flush=True)
            continue
        start = time.perf_counter()
        for k in range(int(words[1])):
            losses = trainer.step(k % len(trainer.steps))
        seconds = time.perf_counter() - start
        print(seconds, *[x.item() for x in losses], flush=True)


def usage(field):
    with open("/proc/self/status") as f:
        for line in f:
            if line.startswith(field + ":"):
                return int(line.split()[1]) << 10
    raise ValueError(f"/proc/self/status tells no {field}")


def memory(trainer, count):
    before = usage("VmRSS")
    with open("/proc/self/clear_refs", "w") as f:
        f.write("5")  # the peak so far, that of loading, is forgotten
    for k in range(count):
        trainer.step(k % len(trainer.steps))
    json.dump({"before": before, "peak": usage("VmHWM"), "after": usage("VmRSS")}, sys.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    modes = parser.add_subparsers(dest="mode", required=True)
    modes.add_parser("version")
    for mode in ("steps", "time", "memory"):
        p = modes.add_parser(mode)
        p.add_argument("program")
        p.add_argument("weights")
        p.add_argument("images")
        if mode == "steps":
            p.add_argument("out")
        if mode == "memory":
            p.add_argument("count", type=int)
        p.add_argument("--threads", type=int, default=1)
        p.add_argument("--layout", choices=["channels_first", "channels_last"], default="channels_first")
        p.add_argument("--slices", choices=["view", "contiguous", "leaf"], default="view", help="how a network takes part of a weight")
        p.add_argument("--joint", action="store_true", help="one backward pass for the sum of all losses")
        p.add_argument("--foreach", action="store_true", help="the optimiser's multi-tensor form")
        p.add_argument("--float64", action="store_true")
    args = parser.parse_args()
    if args.mode == "version":
        print(torch.__version__)
        return
    torch.set_num_threads(args.threads)
    trainer = Trainer(args)
    if args.mode == "steps":
        steps(trainer, args.out)
    elif args.mode == "time":
        serve(trainer)
    else:
        memory(trainer, args.count)


main()
