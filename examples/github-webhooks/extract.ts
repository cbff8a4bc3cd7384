import type { Webhook } from './messages.ts'

interface Subject {
  readonly number: number
  readonly title: string
  readonly state: string
  readonly updated_at?: string
}

export interface Payload {
  readonly action?: string
  readonly repository?: { readonly full_name: string }
  readonly issue?: Subject
  readonly pull_request?: Subject
}

/** The part of a payload that travels on. */
export function extract(event: string, payload: Payload): Webhook {
  const kind = payload.issue ? 'issue' : payload.pull_request ? 'pull_request' : null
  const subject = payload.issue ?? payload.pull_request
  return {
    event,
    action: payload.action ?? null,
    repository: payload.repository?.full_name ?? null,
    subject:
      kind && subject
        ? {
            kind,
            number: subject.number,
            title: subject.title ?? '',
            state: subject.state ?? '',
            updatedAt: subject.updated_at ?? null,
          }
        : null,
  }
}
