import { once } from 'node:events';
import { fork } from 'node:child_process';
import { parseArgs } from 'node:util';
import { quantile } from './quantile.ts';

/**
 * How long a tenant waits for its own view: thirty days of one tenant out of a thousand, asked for by as many readers at a
 * time as `--readers` says, each of them another tenant. Beside it the same asked for by an operator, in turns, so that a
 * busy machine slows both.
 */
const { values } = parseArgs({
  options: {
    tenants: { type: 'string', default: '1000' },
    days: { type: 'string', default: '30' },
    /** Hours between two windows; whole days are answered from a sum each, however many there are. */
    step: { type: 'string', default: '6' },
    readers: { type: 'string', default: '4' },
    rounds: { type: 'string', default: '300' },
  },
});
const [tenants, days, step, readers, rounds] = [
  Number(values.tenants),
  Number(values.days),
  Number(values.step),
  Number(values.readers),
  Number(values.rounds),
];
const TOKEN = 'bench-token-0123456789';
const DAY_MS = 86_400_000;

const child = fork(new URL('portal-server.ts', import.meta.url), [
  TOKEN,
  String(tenants),
  String(days),
  String(step),
]);
const [port] = (await once(child, 'message')) as [number];
const address = `http://127.0.0.1:${port}`;
const from = new Date(Math.floor(Date.now() / DAY_MS) * DAY_MS - (days - 1) * DAY_MS).toISOString();

/** What the page asks for when it opens; without the tenant, which is the token's. */
const PATHS = [
  `/api/v1/usage?group_by=sku,tenant_cluster&from=${from}`,
  `/api/v1/usage?group_by=sku,day&metric=tenant_gpu_hours&from=${from}`,
  `/api/v1/costs?group_by=sku,tenant_cluster&from=${from}`,
  `/api/v1/gaps?from=${from}`,
];

const answers = { portal: [] as number[], operator: [] as number[] };
const pages: number[] = [];
const tokens = new Map<number, string>();
for (let reader = 0; reader < Math.min(tenants, rounds * readers); reader++) {
  const made = await fetch(`${address}/api/v1/tenants/tenant-${reader}/portal-tokens`, {
    method: 'POST',
    headers: { authorization: `Bearer ${TOKEN}` },
  });
  tokens.set(reader, ((await made.json()) as { token: string }).token);
}
// Once over, so that nobody pays for what is read for the first time.
for (const path of PATHS) await ask(path, TOKEN);
for (let round = 0; round < rounds; round++) {
  await Promise.all(
    Array.from({ length: readers }, async (_, reader) => {
      const tenant = (round * readers + reader) % tenants;
      const began = performance.now();
      for (const path of PATHS) {
        answers.portal.push(await ask(path, tokens.get(tenant) ?? ''));
      }
      pages.push(performance.now() - began);
    }),
  );
  await Promise.all(
    Array.from({ length: readers }, async (_, reader) => {
      const tenant = (round * readers + reader) % tenants;
      for (const path of PATHS) {
        answers.operator.push(await ask(`${path}&tenant=tenant-${tenant}`, TOKEN));
      }
    }),
  );
}
child.kill();

const p95 = quantile(answers.portal, 0.95);
report('p50_answer', quantile(answers.portal, 0.5), 'ms');
report('p95_answer', p95, 'ms');
report('p95_page', quantile(pages, 0.95), 'ms');
report('p95_vs_operator', p95 / quantile(answers.operator, 0.95), 'ratio');

async function ask(path: string, token: string): Promise<number> {
  const began = performance.now();
  const answer = await fetch(`${address}${path}`, {
    headers: { authorization: `Bearer ${token}` },
  });
  await answer.arrayBuffer();
  if (answer.status !== 200) throw new Error(`${path}: ${answer.status}`);
  return performance.now() - began;
}

function report(figure: string, value: number, unit: string): void {
  const of = `${tenants} tenants, ${days} days, ${readers} readers at a time`;
  const rounded = Math.round(value * 1000) / 1000;
  console.log(JSON.stringify({ bench: 'portal', figure, value: rounded, unit, of }));
}
