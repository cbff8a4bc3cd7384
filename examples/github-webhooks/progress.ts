const WIDTH = 40

/** A bar on a terminal, and a line for every tenth in a pipe. */
export class Progress {
  readonly #total: number
  #shown = -1

  constructor(total: number) {
    this.#total = total
  }

  show(done: number): void {
    const share = done / this.#total
    const step = Math.floor(share * (process.stdout.isTTY ? 200 : 10))
    if (step === this.#shown) return
    this.#shown = step
    const text = `${Math.floor(share * 100)} %  ${done} of ${this.#total} requests`
    if (!process.stdout.isTTY) console.log(text)
    else process.stdout.write(`\r${'█'.repeat(Math.round(share * WIDTH)).padEnd(WIDTH, '░')}  ${text}`)
  }

  end(): void {
    if (process.stdout.isTTY) process.stdout.write('\n')
  }
}
