import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { LedgerDatabase } from '../../../operator/settings/settings.ts';
import type { Message } from './messages.ts';

type Acknowledged = Extract<Message, { kind: 'acknowledged' }>;

/** The process that writes a stream, and what it was told is stored. */
export interface StreamWriter {
  /** The newest window that was acknowledged, and the furthest cursor; undefined before the first. */
  newest(): Pick<Acknowledged, 'window' | 'cursor' | 'credits'> | undefined;
  /** Events that were offered once more, so far. */
  repeats(): number;
  /** Whether it was told for a while that there is no room. */
  foundFull(): boolean;
  /** What it says went wrong. */
  wrong(): readonly string[];
  /** Why it takes nothing any more; undefined while it does. */
  stopped(): string | undefined;
  /** Resolves when so many more windows are acknowledged, or the ledger takes nothing any more. */
  more(windows: number): Promise<void>;
  /** Lets it end in order. */
  end(): Promise<void>;
}

const PATIENCE_MS = 60_000;

export interface WriterOptions {
  readonly stream: string;
  readonly durability: 'standby' | 'storage';
  /** Whether it keeps prepaid balances beside. */
  readonly budgets: boolean;
}

export function startWriter(
  { port, name }: LedgerDatabase,
  { stream, durability, budgets }: WriterOptions,
): StreamWriter {
  const script = join(import.meta.dirname, 'writer.ts');
  const beside = budgets ? 'budgets' : '';
  const args = [script, String(port), name, stream, durability, beside];
  const child = spawn(process.execPath, args, { stdio: ['pipe', 'pipe', 'pipe'] });
  const errors: string[] = [];
  child.stderr.on('data', (chunk: Buffer) => errors.push(chunk.toString()));
  const closed = once(child, 'close');
  const wrong: string[] = [];
  let acknowledged: Acknowledged | undefined;
  let repeats = 0;
  let full = false;
  let stopped: string | undefined;
  let news = Promise.withResolvers<void>();

  createInterface({ input: child.stdout }).on('line', (line) => {
    const message = JSON.parse(line) as Message;
    if (message.kind === 'acknowledged') {
      acknowledged = message;
      repeats += message.repeats;
    } else if (message.kind === 'refused') full ||= message.cause === 'full';
    else if (message.kind === 'stopped') stopped = message.message;
    else wrong.push(message.text);
    news.resolve();
    news = Promise.withResolvers<void>();
  });
  void closed.then(() => {
    if (child.exitCode !== 0) stopped ??= `ended with ${child.exitCode}: ${errors.join('')}`;
    news.resolve();
  });

  return {
    newest: () => acknowledged,
    repeats: () => repeats,
    foundFull: () => full,
    wrong: () => wrong,
    stopped: () => stopped,
    async more(windows) {
      const last = (acknowledged?.window ?? -1) + windows;
      const late = AbortSignal.timeout(PATIENCE_MS);
      const gaveUp = once(late, 'abort');
      for (;;) {
        if ((acknowledged?.window ?? -1) >= last || stopped !== undefined) return;
        if (late.aborted) throw new Error(`nothing is acknowledged any more: ${errors.join('')}`);
        await Promise.race([news.promise, gaveUp]);
      }
    },
    async end() {
      child.stdin.end();
      await closed;
    },
  };
}
