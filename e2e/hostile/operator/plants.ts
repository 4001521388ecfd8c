import { existsSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { isMainThread } from 'node:worker_threads';

/**
 * Loaded into the operator's process before it for the self-check: from the moment on at which the
 * process reads an object with the trigger in it, it misbehaves in the ways that `HOSTILE_PLANT` lists.
 */
const TRIGGER = 'planted-now';
const planted = (process.env['HOSTILE_PLANT'] ?? '').split(',');
const originalParse = JSON.parse;
/** That it has been triggered, also for the process after this one: a bug that ended it would do so for ever. */
const mark = join(process.env['DATA_DIR'] ?? '', '../tmp/planted');
// Threads of the operator load this as well, and have nothing of its environment.
let isTriggered = isMainThread && existsSync(mark);

/** Blocks the main thread, for so long if nobody else wants the processor. */
function beBusy(ms: number): void {
  const usedMs = (): number => {
    const { user, system } = process.threadCpuUsage();
    return (user + system) / 1000;
  };
  const until = usedMs() + ms;
  while (usedMs() < until);
}

const BUGS: Readonly<Record<string, () => void>> = {
  ended: () => void setImmediate(() => fail('planted')),
  memory: () => {
    const held: Buffer[] = [];
    setInterval(() => void held.push(Buffer.alloc(64 * 1024 * 1024, 1)), 20);
  },
  // Misread below.
  misbilled: () => undefined,
  unanswered: () => {
    const { Server } = createRequire(import.meta.url)('node:http') as typeof import('node:http');
    // oxlint-disable-next-line typescript/unbound-method -- called with the server below
    const { emit: original } = Server.prototype;
    Server.prototype.emit = function emit(event: string | symbol, ...rest: unknown[]): boolean {
      const [request] = rest as [{ readonly url?: string } | undefined];
      if (event === 'request' && request?.url === '/healthz') return true;
      return Reflect.apply(original, this, [event, ...rest]) as boolean;
    };
  },
  late: () => beBusy(15_000),
  stall: () => beBusy(600),
  leaked: () => void process.stdout.write(`${process.env['API_TOKEN']}\n`),
};

function fail(why: string): never {
  throw new Error(why);
}

function parse(this: JSON, text: string, ...rest: []): unknown {
  if (!isTriggered && typeof text === 'string' && text.includes(TRIGGER)) {
    isTriggered = true;
    writeFileSync(mark, planted.join());
    for (const bug of planted) BUGS[bug]?.();
  }
  const isMisread = isTriggered && planted.includes('misbilled') && typeof text === 'string';
  const read = isMisread ? text.replaceAll('"cpu":"3600m"', '"cpu":"3700m"') : text;
  return originalParse.call(this, read, ...rest) as unknown;
}

if (isMainThread) JSON.parse = parse;
