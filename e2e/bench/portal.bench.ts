import { fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { type Page, pagesOf } from './portal-pages.ts';
import { quantile } from './quantile.ts';

/**
 * How long a tenant waits for its own view: one tenant out of a thousand opens one page after the other, as many readers at a
 * time as `--readers` says, each of them another tenant, and each page asks for all that it shows at once, as a browser
 * does. Beside it an operator asks for the same of the same tenants, in turns, so that a busy machine slows both.
 */
const { values } = parseArgs({
  options: {
    tenants: { type: 'string', default: '1000' },
    days: { type: 'string', default: '30' },
    /** Hours between two windows; hourly in the last days, and every minute in the last hours. */
    step: { type: 'string', default: '6' },
    readers: { type: 'string', default: '4' },
    rounds: { type: 'string', default: '40' },
  },
});
const [tenants, days, step, readers, passes] = [
  Number(values.tenants),
  Number(values.days),
  Number(values.step),
  Number(values.readers),
  Number(values.rounds),
];
const TOKEN = 'bench-token-0123456789';
/** As the page does it, where it is told that too much is asked for at once. */
const BUSY_MS = 1_500;
const ATTEMPTS = 3;
/** As the page asks: an answer of a moment ago will do. */
const SHARED = { 'cache-control': 'max-age=30' };

const child = fork(new URL('portal-server.ts', import.meta.url), [
  TOKEN,
  String(tenants),
  String(days),
  String(step),
]);
const [port] = (await once(child, 'message')) as [number];
const address = `http://127.0.0.1:${port}`;
const pages = pagesOf(Date.now(), days);

interface Times {
  readonly answers: number[];
  readonly whole: number[];
}

const portal = new Map(
  pages.map(({ name }): [string, Times] => [name, { answers: [], whole: [] }]),
);
const operator: number[] = [];
let busy = 0;
const tokens = new Map<number, string>();
for (let reader = 0; reader < Math.min(tenants, passes * readers); reader++) {
  const made = await fetch(`${address}/api/v1/tenants/tenant-${reader}/portal-tokens`, {
    method: 'POST',
    headers: { authorization: `Bearer ${TOKEN}` },
  });
  tokens.set(reader, ((await made.json()) as { token: string }).token);
}
// Once over, so that nobody pays for what is read for the first time.
for (const page of pages) await open(page, 0, tokens.get(0) ?? '');
busy = 0;
for (let round = 0; round < passes; round++) {
  const of = Array.from({ length: readers }, (_, reader) => (round * readers + reader) % tenants);
  for (const page of pages) {
    const { answers, whole: complete } = portal.get(page.name) ?? { answers: [], whole: [] };
    await Promise.all(
      of.map(async (tenant) => {
        const began = performance.now();
        answers.push(...(await open(page, tenant, tokens.get(tenant) ?? '')));
        complete.push(performance.now() - began);
      }),
    );
  }
  for (const tenant of of) {
    for (const page of pages) operator.push(...(await open(page, tenant, TOKEN)));
  }
}
child.disconnect();

for (const [name, { answers, whole: complete }] of portal) {
  report(`p95_answer_${name}`, quantile(answers, 0.95), 'ms');
  report(`p95_page_${name}`, quantile(complete, 0.95), 'ms');
}
const all = [...portal.values()].flatMap(({ answers }) => answers);
report('p50_answer', quantile(all, 0.5), 'ms');
report('p95_answer', quantile(all, 0.95), 'ms');
report('p95_vs_operator', quantile(all, 0.95) / quantile(operator, 0.95), 'ratio');
report('asked_again', busy / all.length, 'ratio');

/** All that a page asks for, at once; how long each answer took. */
function open({ paths }: Page, tenant: number, token: string): Promise<readonly number[]> {
  const name = `tenant-${tenant}`;
  return Promise.all(paths(name, token === TOKEN).map((path) => query(path, token)));
}

async function query(path: string, token: string): Promise<number> {
  const began = performance.now();
  for (let left = ATTEMPTS; left > 0; left--) {
    const requested = (): Promise<Response> =>
      fetch(`${address}${path}`, { headers: { ...SHARED, authorization: `Bearer ${token}` } });
    // As a browser does, where a connection that was kept has been closed meanwhile.
    const answer = await requested().catch(requested);
    await answer.arrayBuffer();
    if (answer.status === 200) return performance.now() - began;
    if (answer.status !== 503) throw new Error(`${path}: ${answer.status}`);
    busy++;
    await delay(BUSY_MS);
  }
  throw new Error(`${path}: busy`);
}

function report(figure: string, value: number, unit: string): void {
  const of = `${tenants} tenants, ${days} days, ${readers} readers at a time`;
  const rounded = Math.round(value * 1000) / 1000;
  console.log(JSON.stringify({ bench: 'portal', figure, value: rounded, unit, of }));
}
