import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { LedgerDatabase } from '../../../../operator/config/settings.ts';
import type { WriterOptions } from '../writer-process.ts';
import type { ReplicaMessage } from './messages.ts';

export interface ReplicaProcessOptions extends Pick<WriterOptions, 'stream' | 'durability'> {
  readonly database: LedgerDatabase;
  /** Of this process alone. */
  readonly label: string;
  /** False: to see that what is written without a right is found. */
  readonly fenced: boolean;
}

type Said<K extends ReplicaMessage['kind']> = Extract<ReplicaMessage, { readonly kind: K }>;

const PATIENCE_MS = 60_000;

/** One of several processes that have a stream open, and all that it has said. */
export class ReplicaProcess {
  readonly label: string;
  readonly #child;
  readonly #closed: Promise<unknown>;
  readonly #said: ReplicaMessage[] = [];
  readonly #errors: string[] = [];
  #news = Promise.withResolvers<void>();
  #isKilled = false;

  constructor(options: ReplicaProcessOptions) {
    const { database, stream, durability, label, fenced } = options;
    const { port, name } = database;
    const fence = fenced ? 'fenced' : '';
    this.label = label;
    const script = join(import.meta.dirname, 'replica.ts');
    const args = [script, String(port), name, stream, durability, label, fence];
    this.#child = spawn(process.execPath, args, { stdio: ['pipe', 'pipe', 'pipe'] });
    this.#child.stderr.on('data', (chunk: Buffer) => this.#errors.push(chunk.toString()));
    // Of one that is killed the pipe breaks.
    this.#child.stdin.on('error', () => undefined);
    createInterface({ input: this.#child.stdout }).on('line', (line) => {
      this.#said.push(JSON.parse(line) as ReplicaMessage);
      this.#tell();
    });
    this.#closed = once(this.#child, 'close').then(() => this.#tell());
  }

  /** Everything of a kind that it has said, oldest first. */
  readonly said = <K extends ReplicaMessage['kind']>(kind: K): readonly Said<K>[] =>
    this.#said.filter((message): message is Said<K> => message.kind === kind);

  /** Why it takes nothing any more; undefined while it does, and when it was killed. */
  get stopped(): string | undefined {
    const { exitCode } = this.#child;
    if (this.#isKilled) return undefined;
    const [stopped] = this.said('stopped');
    if (stopped !== undefined) return stopped.message;
    return exitCode === null || exitCode === 0
      ? undefined
      : `${this.label} ended with ${exitCode}: ${this.#errors.join('')}`;
  }

  get hasEnded(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null;
  }

  /** Waits until it has said that, or takes nothing any more. */
  async until(what: string, holds: () => boolean): Promise<void> {
    const late = AbortSignal.timeout(PATIENCE_MS);
    const gaveUp = once(late, 'abort');
    while (!holds() && this.stopped === undefined) {
      if (late.aborted) {
        throw new Error(`replica ${this.label}: not ${what} in time: ${this.#errors.join('')}`);
      }
      await Promise.race([this.#news.promise, gaveUp]);
    }
  }

  /** Tells it to be the meter; resolves when it is. */
  async lead(term: number): Promise<void> {
    this.#child.stdin.write(`${term}\n`);
    await this.until('leading', () => this.said('leads').some((each) => each.term === term));
  }

  freeze(): void {
    this.#child.kill('SIGSTOP');
  }

  thaw(): void {
    this.#child.kill('SIGCONT');
  }

  async kill(): Promise<void> {
    this.#isKilled = true;
    this.#child.kill('SIGKILL');
    await this.#closed;
  }

  /** Lets it end in order. */
  async end(): Promise<void> {
    this.#child.stdin.end();
    await this.#closed;
  }

  #tell(): void {
    this.#news.resolve();
    this.#news = Promise.withResolvers<void>();
  }
}
