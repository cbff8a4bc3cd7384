import { describe, expect, it } from 'vitest'
import type { Store } from '../../src/contracts/store.ts'
import { memory } from '../../src/stores/memory.ts'
import { storeSuite } from '../../src/testing/index.ts'

storeSuite(
  {
    name: 'memory',
    shared: false,
    async create() {
      return {
        store: () => memory() as unknown as Store<never, never>,
        placeholder: () => '?',
        table: name => `ichido_${name}`,
        close: async () => {},
      }
    },
  },
  { describe, it, expect },
)
