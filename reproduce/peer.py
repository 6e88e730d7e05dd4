# Makes ONNX Runtime sessions of the models named on stdin, one a line, and tells how long that and two runs took.
import json, sys, time
import numpy, onnxruntime

threads, shape = int(sys.argv[1]), [1] + [int(n) for n in sys.argv[2:5]]
options = onnxruntime.SessionOptions()
options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
images = {"input": numpy.ones(shape, numpy.float32)}
print(json.dumps({"version": onnxruntime.__version__, "language": "Python"}), flush=True)
for line in sys.stdin:
    times = [time.perf_counter()]
    session = onnxruntime.InferenceSession(line.rstrip("\n"), options, providers=["CPUExecutionProvider"])
    times.append(time.perf_counter())
    for _ in range(2):
        session.run(None, images)
        times.append(time.perf_counter())
    del session
    print(json.dumps({"create": times[1] - times[0], "first": times[2] - times[1], "again": times[3] - times[2]}), flush=True)
