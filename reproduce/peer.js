// Makes ONNX Runtime sessions of the models named on stdin, one a line, and tells how long that and two runs took.
const ort = require('onnxruntime-node')
const [threads, ...shape] = process.argv.slice(1).map(Number)
const options = {
  intraOpNumThreads: threads, interOpNumThreads: 1, graphOptimizationLevel: 'all', executionMode: 'sequential', executionProviders: ['cpu'],
}
const image = new ort.Tensor('float32', new Float32Array(shape.reduce((a, b) => a * b, 1)).fill(1), [1, ...shape])
const say = value => process.stdout.write(JSON.stringify(value) + '\n')

async function measure(name) {
  const times = [performance.now()]
  const session = await ort.InferenceSession.create(name, options)
  times.push(performance.now())
  for (let i = 0; i < 2; i++) {
    await session.run({ input: image })
    times.push(performance.now())
  }
  await session.release()
  const seconds = times.slice(1).map((t, i) => (t - times[i]) / 1000)
  say({ create: seconds[0], first: seconds[1], again: seconds[2] })
}

async function main() {
  say({ version: require('onnxruntime-node/package.json').version, language: 'Node.js' })
  for await (const name of require('readline').createInterface({ input: process.stdin })) await measure(name)
}
main().catch(e => { console.error(String(e)); process.exit(1) })
