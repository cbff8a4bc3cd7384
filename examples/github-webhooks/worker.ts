/** The process that runs the consumers. It is killed without warning in the example, and started again. */
import { start } from '../../src/index.ts'
import config from './ichido.config.ts'

const ichido = await start(config)
process.once('SIGTERM', async () => {
  await ichido.stop()
  process.exit(0)
})
process.send?.('ready')
// Whoever started this process is gone: nothing must outlive the example.
process.once('disconnect', () => process.exit(1))
