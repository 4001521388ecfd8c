import { execFile } from 'node:child_process';
import { createHash, createPrivateKey, sign } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { planRecordKey } from '../../billing/usage/plan-history.ts';
import type { Ledger } from '../../ledger/ledger.ts';
import { testEvent } from '../../ledger/testing/events.ts';
import { scratchDirectory } from '../../ledger/testing/scratch.ts';
import { seededRandom } from '../../ledger/testing/seeded-random.ts';
import { correctionOf } from '../../model/correction.ts';
import { deriveEventId } from '../../model/event-id.ts';
import type { UsageEvent } from '../../model/event.ts';
import type { PriceBook } from '../../model/price-book.ts';
import { bookOf, flat, priceOf, tiered } from '../../model/pricing/testing/price-books.ts';
import { newKey } from '../portal/testing/keys.ts';
import {
  API_TOKEN as token,
  quietDiscovery,
  startTestServer,
  type TestServer,
  testSettings,
  testTenant,
} from './test-server.ts';

const VERIFIER = fileURLToPath(new URL('../../../scripts/verify-statement', import.meta.url));
const METRIC = 'tenant_instance_hours';
const MINUTE = 60_000;
export const KEY = newKey();
export const MONTH = '2026-11';
/** The tenants of every batch; `acme` changes its plan within the month. */
export const TENANTS = ['acme', 'burst', 'zeta', 'Zoo'];

const rates = [
  { from: '2025-01-01', charge: flat(9) },
  { from: '2026-01-01', charge: flat(2.5) },
  { from: '2026-11-12', charge: flat(3.125) },
  { from: '2027-01-01', charge: flat(77) },
];
const tiers: readonly (readonly [number, number])[] = [
  [5, 0.5],
  [50, 0.25],
];

export const BOOKS: readonly PriceBook[] = [
  bookOf([
    priceOf(METRIC, flat(2), { rates }),
    {
      ...priceOf(METRIC, tiered('graduated', tiers, 0.125, 3)),
      name: 'graduated',
      match: { sku: 'a' },
    },
    { ...priceOf(METRIC, tiered('volume', tiers, 0.125)), name: 'volume', match: { sku: 'b' } },
    { ...priceOf(METRIC, flat(1)), name: 'secret', match: { tenant_class: 'kanari' } },
  ]),
  bookOf([{ ...priceOf(METRIC, flat(150, 7)), name: 'only a', match: { sku: 'a' } }], {
    name: 'gold',
    currency: 'JPY',
  }),
];

/** Appends random windows of November with pushed, corrected and October's events between them. */
export async function fillMonth(ledger: Ledger, windows: number, seed: number): Promise<void> {
  const random = seededRandom(seed);
  const pick = <T>(all: readonly T[]): T => all[Math.floor(random() * all.length)] as T;
  const from = Date.UTC(2026, 9, 31, 23);
  const step = Math.floor((20 * 86_400_000) / windows / MINUTE) * MINUTE;
  for (let index = 0; index < windows; index += 1) {
    const windowStart = from + index * step;
    const events = TENANTS.filter((_, at) => at === 1 || random() < 0.8).flatMap((tenant) =>
      ['a', 'b', undefined].map((sku) =>
        testEvent({ tenant, windowStart, sku, quantity: (random() * 9).toFixed(9) }),
      ),
    );
    const [first] = events;
    if (first === undefined) throw new Error('no events');
    const pushed = { ...first, id: `push "${index}" ü`, source: 'ingest:app' };
    const informational = { ...first, metric: 'tenant_gpu_utilization', unit: 'util-hours' };
    const more: readonly UsageEvent[] = [
      pushed,
      { ...informational, id: deriveEventId(informational) },
    ];
    const appended = await ledger.append({
      events: [...events, ...pick([[], more])],
      windowEnd: windowStart + MINUTE,
    });
    if (appended.kind === 'failed') throw new Error(appended.message);
    if (random() < 0.6) continue;
    const sequence = appended.head;
    const page = await ledger.read(sequence - 1, 1);
    const event = page.kind === 'page' ? page.events[0]?.event : undefined;
    if (event === undefined) throw new Error('no event');
    const note = { reason: 'measured twice', author: 'ops' };
    await ledger.append({
      events: [correctionOf({ event, sequence }, 1, -1_000_000_007n, event.recorded_at, note)],
    });
  }
  const value = JSON.stringify([
    ['', 'tenant-standard'],
    ['2026-11-09', 'gold'],
  ]);
  await ledger.writeRecords([{ key: planRecordKey('acme'), value }]);
}

/** A server that gives statements of a ledger. */
export function statementServer(
  ledger: Ledger,
  keys = KEY,
  usageDirectory?: string,
): Promise<TestServer> {
  const settings = { ...testSettings({ PORTAL_KEYS: keys }), pricing: { books: BOOKS } };
  const tenants = TENANTS.map((id) => testTenant(id));
  return startTestServer({
    ledger,
    usageDirectory,
    views: { settings: () => settings, discovery: quietDiscovery({ tenants: () => tenants }) },
  });
}

/** The statement of a tenant, `more` being further query parameters. */
export async function downloadStatement(
  server: TestServer,
  tenant = 'acme',
  more = '',
): Promise<string> {
  const path = `/api/v1/tenants/${tenant}/statement?month=${MONTH}${more}`;
  const { status, text } = await server.call('GET', path, { token });
  if (status !== 200) throw new Error(text);
  return text;
}

/** Calls the program for each file in one process: starting one takes longer than a check. */
const DRIVER = `
import contextlib, io, json, runpy, sys
program, *files = sys.argv[1:]
main = runpy.run_path(program)["main"]
answers = []
for file in files:
    sys.argv = [program, file, "--keys", file + ".keys", *open(file + ".more").read().split()]
    with contextlib.redirect_stdout(io.StringIO()) as output:
        code = main()
    answers.append({"code": code, "output": output.getvalue()})
print(json.dumps(answers))
`;

interface Checked {
  readonly code: number;
  readonly output: string;
}

/** Runs `scripts/verify-statement` on each text, with its anchors, and returns what it printed. */
export async function verifyStatements(
  texts: readonly string[],
  keys: string,
  anchorsOf: (index: number) => readonly string[] = () => [],
): Promise<readonly Checked[]> {
  const { path, remove } = await scratchDirectory();
  try {
    const files = texts.map((_, index) => join(path, String(index)));
    for (const [index, file] of files.entries()) {
      const more = anchorsOf(index).map((anchor) => `--anchor ${anchor}`);
      await writeFile(file, texts[index] ?? '');
      await writeFile(`${file}.keys`, keys);
      await writeFile(`${file}.more`, more.join(' '));
    }
    const { stdout } = await promisify(execFile)('python3', ['-c', DRIVER, VERIFIER, ...files]);
    return JSON.parse(stdout) as readonly Checked[];
  } finally {
    await remove();
  }
}

/** The public keys of a server. */
export async function statementKeys(server: TestServer): Promise<string> {
  return (await server.call('GET', '/.well-known/meterfeed-statement-keys.json')).text;
}

/** Signs changed lines again, as a provider would that wants to cheat. */
export function signAgain(lines: readonly string[], change: object = {}): string {
  const { signature } = JSON.parse(lines.at(-1) ?? '') as { signature: string };
  const [header = '', payload = ''] = signature.split('.');
  const before = lines
    .slice(0, -1)
    .map((line) => `${line}\n`)
    .join('');
  const sha256 = createHash('sha256').update(before).digest('hex');
  const signed = { ...JSON.parse(Buffer.from(payload, 'base64url').toString()), sha256, ...change };
  const input = `${header}.${Buffer.from(JSON.stringify(signed)).toString('base64url')}`;
  const value = sign(null, Buffer.from(input), createPrivateKey(KEY)).toString('base64url');
  return `${before}${JSON.stringify({ signature: `${input}.${value}` })}\n`;
}
