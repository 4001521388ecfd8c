import { fork } from 'node:child_process';
import { once } from 'node:events';
import { steadyLoad, type SteadyResult } from './steady-load.ts';

/**
 * How long a gateway waits for the answer whether a tenant may send a request, at 2,000 questions a
 * second. Each tenant has a prepaid balance and 15 sums that no window has closed.
 */
const RATE = 2_000;
const SECONDS = Number(process.env['BENCH_SECONDS'] ?? 20);
const TOKEN = 'bench-token-of-access-checks';

const child = fork(new URL('access-server.ts', import.meta.url), [TOKEN]);
const [port] = (await once(child, 'message')) as [number];
await load(2);
const { p50, p99, perSecond } = await load(SECONDS);
child.disconnect();
report('p50_ms', p50, `ms at ${RATE} requests/s`);
report('p99_ms', p99, `ms at ${RATE} requests/s`);
report('requests_per_second', perSecond, 'requests/s');

function load(seconds: number): Promise<SteadyResult> {
  let sent = 0;
  return steadyLoad(port, { perSecond: RATE, seconds }, () => {
    sent += 1;
    const path = `/api/v1/tenants/tenant-${sent % 100}/access?model=model-${sent % 5}`;
    return { method: 'GET', path, headers: { authorization: `Bearer ${TOKEN}` } };
  });
}

function report(figure: string, value: number, unit: string): void {
  const rounded = Math.round(value * 1000) / 1000;
  console.log(JSON.stringify({ bench: 'access', figure, value: rounded, unit }));
}
