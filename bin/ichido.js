#!/usr/bin/env node
// Old syntax on purpose: a Node that is too old for ichido must still be able to read this file and say so.
var major = Number(process.versions.node.split('.')[0])

if (major < 24) {
  console.error(
    'ichido needs Node 24 or newer, this is Node ' +
      process.versions.node +
      '. Install Node 24 and run the command again.',
  )
  process.exit(2)
}

// A checkout runs its sources, since a build of it may be old: Node 24 strips their types. The package has no sources.
import('node:fs')
  .then(fs => {
    var built = new URL('../dist/cli/main.js', import.meta.url)
    var source = new URL('../src/cli/main.ts', import.meta.url)
    return import((fs.existsSync(source) ? source : built).href)
  })
  .catch(error => {
    console.error(error)
    process.exit(1)
  })
