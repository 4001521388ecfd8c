import { fork } from 'node:child_process';
import { once } from 'node:events';
import autocannon, { type Result } from 'autocannon';

/**
 * How long a gateway waits for the answer whether a tenant may send a request, at 2,000 questions a
 * second. Each tenant has a prepaid balance and 15 sums that no window has closed.
 */
const CONNECTIONS = 64;
const RATE = 2_000;
const SECONDS = Number(process.env['BENCH_SECONDS'] ?? 10);
const TOKEN = 'bench-token-of-access-checks';

const child = fork(new URL('access-server.ts', import.meta.url), [TOKEN]);
const [port] = (await once(child, 'message')) as [number];
await load(2);
const { latency, requests } = await load(SECONDS);
child.disconnect();
report('p50_ms', latency.p50, `ms at ${RATE} requests/s`);
report('p99_ms', latency.p99, `ms at ${RATE} requests/s`);
report('requests_per_second', requests.average, 'requests/s');

async function load(duration: number): Promise<Result> {
  let sent = 0;
  const result = await autocannon({
    url: `http://127.0.0.1:${port}`,
    connections: CONNECTIONS,
    duration,
    overallRate: RATE,
    headers: { authorization: `Bearer ${TOKEN}` },
    requests: [
      {
        method: 'GET',
        setupRequest: (request) => {
          sent += 1;
          const model = `model-${sent % 5}`;
          const path = `/api/v1/tenants/tenant-${sent % 100}/access?model=${model}`;
          return { ...request, path };
        },
      },
    ],
  });
  if (result.non2xx + result.errors === 0 && result['2xx'] > 0) return result;
  throw new Error(`${result.non2xx} refused, ${result.errors} failed`);
}

function report(figure: string, value: number, unit: string): void {
  const rounded = Math.round(value * 1000) / 1000;
  console.log(JSON.stringify({ bench: 'access', figure, value: rounded, unit }));
}
