// Builds src into dist: JavaScript, declarations and source maps by tsc, and the .sql migrations as they are.
import { spawnSync } from 'node:child_process'
import { cpSync, existsSync, globSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
process.chdir(root)

rmSync('dist', { recursive: true, force: true })
const tsc = spawnSync(
  process.execPath,
  [join('node_modules', 'typescript', 'bin', 'tsc'), '-p', 'tsconfig.build.json'],
  {
    stdio: 'inherit',
  },
)
if (tsc.status !== 0) process.exit(tsc.status ?? 1)

for (const file of globSync('src/**/*.sql')) cpSync(file, join('dist', file.slice('src/'.length)))

if (!existsSync('dist')) {
  console.error('tsc wrote nothing')
  process.exit(1)
}
