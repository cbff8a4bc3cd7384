import type { Command } from 'commander'
import type { Finding } from '../../contracts/ledger.ts'
import { defaults, limits } from '../../contracts/limits.ts'
import { inWords } from '../../observe/wording.ts'
import { worst } from '../exit.ts'
import { openStore } from '../open-store.ts'
import { answer } from '../output.ts'
import { marked, table } from '../terminal.ts'
import { type PlaceOptions, withPlace } from './place.ts'

export function addDoctor(program: Command): void {
  withPlace(
    program
      .command('doctor')
      .description('the guarantee that is really in force: versions, settings, retention, clock'),
  ).action(doctor)
}

async function doctor(options: PlaceOptions): Promise<void> {
  const opened = await openStore(options)
  try {
    await opened.store.checkSchema()
    const findings = [...(await opened.store.reads.diagnose()), ...(await retention(opened.store.reads.status()))]
    const level = worst(findings.map(finding => finding.level))
    const settings = { grade: 'effectively-once', ...defaults, limits: { ...limits, name: limits.name.source } }
    answer(options.json, level, { level, findings, settings }, () => {
      const rows = findings.map(finding => [marked(finding.level, finding.name), finding.value, finding.note ?? ''])
      const { maxAttempts, baseMs, capMs } = defaults.retry
      const lines = [
        `Grade effectively-once: the record of a message commits with the handler's own changes in ${opened.name}.`,
        `Defaults: ${maxAttempts} attempts from ${inWords(baseMs)} to ${inWords(capMs)}, timeout ${inWords(defaults.timeoutMs)}, lease ${inWords(defaults.leaseMs)}, retention ${inWords(defaults.retentionMs)}.`,
        `Limits: body ${limits.bodyBytes} bytes, headers ${limits.headerCount} / ${limits.headerBytes} bytes, id and key ${limits.idBytes} bytes.`,
        'Not promised: once-only effects outside the store, and order between messages of different keys.',
      ]
      return `${table(['fact', 'value', 'note'], rows)}\n\n${lines.join('\n')}`
    })
  } finally {
    await opened.close()
  }
}

/** Unfinished work is its own memory; only copies that come after the retention need a person. */
async function retention(
  reading: Promise<{ now: number; consumers: readonly { consumer: string; oldestAt: number | null }[] }>,
): Promise<Finding[]> {
  const { now, consumers } = await reading
  return consumers.flatMap(({ consumer, oldestAt }) => {
    if (oldestAt === null) return []
    const age = now - oldestAt
    const note =
      'A copy of such an age that comes again after the retention becomes a dead letter `unprovable`: lengthen retentionMs.'
    const late = age * 1.2 > defaults.retentionMs
    return [
      {
        name: `oldest of ${consumer}`,
        value: inWords(age),
        level: late ? 'warning' : 'ok',
        note: late ? note : null,
      } as const,
    ]
  })
}
