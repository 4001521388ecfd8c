import { closeSync, openSync, readSync } from 'node:fs';
import { foundIn, type Needle } from './secrets.ts';
import type { Decision } from './evaluation.ts';

/** Longer than any needle, so that one that is cut in two is found. */
const OVERLAP = 200;
const CHUNK = 1024 * 1024;

/** What the operator says to everybody: its log, its answers, what it writes into the host's API. */
export class Outputs {
  readonly #needles: readonly Needle[];
  readonly #decision: Decision;
  readonly #logFile: string;
  #read = 0;
  #tail = '';

  constructor(needles: readonly Needle[], decision: Decision, logFile: string) {
    this.#needles = needles;
    this.#decision = decision;
    this.#logFile = logFile;
  }

  poll(where: string, text: string): void {
    for (const name of foundIn(text, this.#needles)) {
      this.#decision.fail('leaked', `${name} in ${where}`);
    }
  }

  /** What the log has more than the last time. */
  pollAtLog(): void {
    const file = openSync(this.#logFile, 'r');
    const buffer = Buffer.alloc(CHUNK);
    for (;;) {
      const length = readSync(file, buffer, 0, CHUNK, this.#read);
      if (length === 0) break;
      this.#read += length;
      const text = this.#tail + buffer.toString('latin1', 0, length);
      this.poll('the log', text);
      this.#tail = text.slice(-OVERLAP);
    }
    closeSync(file);
  }

  /** What the API shows to those who may read it. */
  async pollAtApi(address: string, token: string): Promise<void> {
    for (const path of PATHS) {
      const answer = await fetch(`${address}${path}`, {
        headers: { authorization: `Bearer ${token}` },
        signal: AbortSignal.timeout(5_000),
      }).catch(() => undefined);
      const text = await answer?.text().catch(() => '');
      this.poll(path, text ?? '');
    }
  }
}

const PATHS = [
  '/metrics',
  '/readyz?verbose',
  '/api/v1/status',
  '/api/v1/tenants',
  '/api/v1/destinations',
  '/api/v1/destinations/lago/dead-letters',
  '/api/v1/destinations/stripe/dead-letters',
  '/api/v1/destinations/metronome/dead-letters',
  '/api/v1/billing-states',
] as const;
