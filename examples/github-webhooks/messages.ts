import { z } from 'zod'
import { defineMessage } from '../../src/index.ts'

const schema = z.object({
  event: z.string(),
  action: z.string().nullable(),
  /** The full name. Payloads without a repository (organisations, marketplaces) have none. */
  repository: z.string().nullable(),
  /** The issue or pull request that the event is about. Whether it can be mirrored is the business of the mirror. */
  subject: z
    .object({
      kind: z.enum(['issue', 'pull_request']),
      number: z.number(),
      title: z.string(),
      state: z.string(),
      updatedAt: z.string().nullable(),
    })
    .nullable(),
})

export type Webhook = z.infer<typeof schema>

/** What the consumers need of a delivery: an extract of some 300 bytes instead of a payload of 10 kB. */
export const webhook = defineMessage({
  type: 'github.webhook',
  schema,
  key: ({ repository }) => repository,
})
