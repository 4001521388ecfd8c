import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { measureTakeOver } from './takeover/measure.ts';

/**
 * How late the next window is closed after its end and the settling delay, when the process that leads is killed, or stopped, just
 * before the window is due. Two processes of the shipped program on one PostgreSQL server, against the stand-in of `scale`.
 * `npm run bench -- takeover --pods 100000` measures another size.
 */
const { values } = parseArgs({
  options: {
    pods: { type: 'string', default: '10000' },
    /** Seconds; a divisor of an hour. */
    window: { type: 'string', default: '60' },
    /** How often each is measured; the latest counts. */
    times: { type: 'string', default: '1' },
  },
});
const pods = positive('pods', values.pods);
const windowSeconds = positive('window', values.window);
const times = positive('times', values.times);

const directory = await mkdtemp(join(tmpdir(), 'takeover-bench-'));
try {
  const size = { pods, tenants: Math.ceil(pods / 100), nodes: Math.ceil(pods / 50) };
  const figures = await measureTakeOver({ size, windowSeconds, times, directory });
  const of = `${pods} pods, windows of ${windowSeconds} s`;
  print('window_late_after_kill_seconds', figures.afterKill, of);
  print('window_late_after_stop_seconds', figures.afterStop, of);
} finally {
  await rm(directory, { recursive: true, force: true });
}

function print(figure: string, value: number, of: string): void {
  const rounded = Number(value.toPrecision(4));
  console.log(JSON.stringify({ bench: 'takeover', figure, value: rounded, unit: 's', of }));
}

function positive(name: string, text: string): number {
  const value = Number(text);
  if (Number.isInteger(value) && value > 0) return value;
  throw new RangeError(`bench: takeover: --${name}: not a whole number above 0: "${text}"`);
}
