import { cp, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Registry } from 'prom-client';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { serviceAccountKubeconfig } from '../../config/testing/rights.ts';
import { useOwnTestCluster } from '../../e2e/control-plane/test-cluster.ts';
import { Portal } from '../http/portal/portal.ts';
import { newKey } from '../http/portal/testing/keys.ts';
import {
  downloadStatement,
  fillMonth,
  KEY,
  statementKeys,
  statementServer,
  verifyStatements,
} from '../http/testing/statements.ts';
import type { Connection } from '../kubernetes/connection.ts';
import { createCapturingLogger } from '../kubernetes/testing/capturing-logger.ts';
import { connectWith } from '../kubernetes/testing/connect.ts';
import { createManualClock } from '../kubernetes/testing/manual-clock.ts';
import type { AppendBatch, Ledger } from '../ledger/ledger.ts';
import { useLedgers } from '../ledger/testing/use-ledgers.ts';
import { decimalFromNanos } from '../model/decimal.ts';
import { override } from '../model/override.ts';
import { Secret } from '../model/secret.ts';
import { createOutbound } from '../outbound/outbound.ts';
import { type HttpTestServer, startTestServer } from '../outbound/testing/test-server.ts';
import { testSettings } from '../http/testing/test-server.ts';
import { Anchors } from './anchors.ts';

const cluster = useOwnTestCluster();
const ledgers = useLedgers();
const NAMESPACE = 'meterfeed-system';
const PATH = `/api/v1/namespaces/${NAMESPACE}/configmaps/meterfeed-anchors`;
const COMPONENT = join(import.meta.dirname, '../../config/components/anchors/rbac.yaml');
const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;
/** After the month of the statements. */
const START = Date.UTC(2026, 11, 1, 12);

let connection: Connection;
let receiver: HttpTestServer;
let answer = 204;
let stop: AbortController;

beforeAll(async () => {
  await cluster.call('POST', '/api/v1/namespaces', { metadata: { name: NAMESPACE } });
  await cluster.kubectl(['apply', '--filename', COMPONENT]);
  connection = connectWith(await serviceAccountKubeconfig(cluster, NAMESPACE, 'meterfeed'));
});
beforeEach(async () => {
  stop = new AbortController();
  answer = 204;
  receiver = await startTestServer((_, response) => void response.writeHead(answer).end());
});
afterEach(async () => {
  stop.abort();
  await receiver.close();
  await cluster.request('DELETE', PATH);
});
afterAll(() => connection.close());

/** The anchors of a leader. `pass` lets some time pass, then waits until they sleep again. */
function anchorsOf(
  ledger: Ledger,
  {
    keys = KEY,
    at = START,
    ...places
  }: Partial<Record<'keys', string>> & {
    readonly at?: number;
    readonly configMap?: boolean;
    readonly webhook?: string;
  },
) {
  const clock = createManualClock(at);
  const logger = createCapturingLogger();
  const registry = new Registry();
  const environment = testSettings({});
  const settings = { ...environment, anchors: { configMap: false, ...places } };
  const pem = [new Secret(keys)];
  const portal = new Portal({ keys: () => pem, identity: () => settings.identity, ledger, clock });
  const anchors = new Anchors({
    ledger,
    sign: portal.signStatement.bind(portal),
    settings: { current: () => settings },
    connection,
    namespace: NAMESPACE,
    outbound: createOutbound({ registry, clock, userAgent: 'meterfeed/test' }),
    clock,
    logger,
    registry,
  });
  void anchors.run(stop.signal);
  const failing = async (): Promise<unknown> =>
    (await registry.getSingleMetric('meterfeed_anchors_failing')?.get())?.values[0]?.value;
  const pass = async (ms: number): Promise<void> => {
    await clock.sleeper();
    await clock.advance(ms);
    await clock.sleeper();
  };
  return { anchors, logger, failing, pass };
}

async function stored(): Promise<Readonly<Record<string, string>>> {
  const { data } = await cluster.call('GET', PATH);
  return data as Readonly<Record<string, string>>;
}

async function ledgerOfMonth(): Promise<Ledger> {
  const ledger = await ledgers.open(await ledgers.directory());
  await fillMonth(ledger, 3, 1);
  return ledger;
}

test('a day has one anchor in the ConfigMap, the first, also after a restart', async () => {
  const ledger = await ledgerOfMonth();
  const first = anchorsOf(ledger, { configMap: true });
  await first.pass(MINUTE);
  const before = await stored();
  expect(Object.keys(before)).toStrictEqual(['2026-12-01']);
  await fillMonth(ledger, 4, 9);
  await first.pass(MINUTE);
  stop.abort();
  stop = new AbortController();
  const restarted = anchorsOf(ledger, { configMap: true, at: START + MINUTE });
  await restarted.pass(MINUTE);
  expect(await stored()).toStrictEqual(before);
  await restarted.pass(DAY);
  const after = await stored();
  expect(Object.keys(after)).toStrictEqual(['2026-12-01', '2026-12-02']);
  expect(after['2026-12-01']).toBe(before['2026-12-01']);
  expect(restarted.logger.lines).toStrictEqual([]);
});

test('the ConfigMap grows over the size of an object, or loses a key of somebody else', async () => {
  const ledger = await ledgerOfMonth();
  const days = Array.from({ length: 450 }, (_, index) =>
    new Date(START - (index + 1) * DAY).toISOString().slice(0, 10),
  );
  await cluster.call('POST', `/api/v1/namespaces/${NAMESPACE}/configmaps`, {
    metadata: { name: 'meterfeed-anchors' },
    data: { note: 'of somebody else' },
  });
  const applied = await connection.request(PATH, {
    method: 'PATCH',
    query: { fieldManager: 'meterfeed', force: true },
    contentType: 'application/apply-patch+yaml',
    body: {
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { name: 'meterfeed-anchors' },
      data: Object.fromEntries(days.map((day) => [day, 'x'.repeat(500)])),
    },
  });
  expect(applied.kind).toBe('ok');
  const { pass } = anchorsOf(ledger, { configMap: true });
  await pass(MINUTE);
  const { note, ...kept } = await stored();
  expect(note).toBe('of somebody else');
  expect(Object.keys(kept)).toStrictEqual(['2026-12-01', ...days.slice(0, 399)].toSorted());
  expect(kept['2026-12-01']?.length).toBeLessThan(500);
  expect(JSON.stringify(await cluster.call('GET', PATH)).length).toBeLessThan(2 ** 19);
});

test('a place that fails is not retried, keeps the other one waiting, or is not reported', async () => {
  const ledger = await ledgerOfMonth();
  answer = 500;
  const webhook = `${receiver.url}/in?key=secret`;
  const { anchors, logger, failing, pass } = anchorsOf(ledger, { configMap: true, webhook });
  await pass(MINUTE);
  await pass(MINUTE);
  expect(Object.keys(await stored())).toStrictEqual(['2026-12-01']);
  expect(anchors.problems()).toStrictEqual(['webhook: HTTP 500']);
  expect(await failing()).toBe(1);
  answer = 200;
  await pass(MINUTE);
  await pass(MINUTE);
  const bodies = receiver.requests.map(({ body }) => body);
  expect(bodies.length).toBe(3);
  expect(JSON.parse(bodies[2] ?? '')).toMatchObject({ day: '2026-12-01' });
  expect(anchors.problems()).toStrictEqual([]);
  expect(await failing()).toBe(0);
  expect(logger.lines.length).toBe(1);
  expect(JSON.stringify(logger.lines)).not.toContain('secret');
});

test('without the right to write it, or without a key, a reason says what to do', async () => {
  const ledger = await ledgerOfMonth();
  await cluster.kubectl(['delete', '--filename', COMPONENT]);
  const denied = anchorsOf(ledger, { configMap: true });
  await denied.pass(MINUTE);
  await cluster.kubectl(['apply', '--filename', COMPONENT]);
  expect(denied.anchors.problems()).toStrictEqual([
    expect.stringMatching(
      /^ConfigMap "meterfeed-anchors": HTTP 403 Forbidden: .*cannot get resource/,
    ),
  ]);
  const keyless = anchorsOf(ledger, { configMap: true, keys: newKey('p256') });
  await keyless.pass(MINUTE);
  expect(keyless.anchors.problems()).toStrictEqual([expect.stringContaining('PORTAL_KEYS_FILE')]);
});

test('a ledger without events has nothing to anchor, and that is no failure', async () => {
  const ledger = await ledgers.open(await ledgers.directory());
  const { anchors, pass } = anchorsOf(ledger, { webhook: receiver.url });
  await pass(MINUTE);
  expect(anchors.problems()).toStrictEqual([]);
  expect(receiver.requests).toStrictEqual([]);
});

/** Two ledgers that were one, until somebody rewrote the past of the second. */
async function originalAndRewritten(): Promise<readonly [Ledger, Ledger]> {
  const [directory, copy] = [await ledgers.directory(), await ledgers.directory()];
  await (await ledgers.open(directory)).close();
  await cp(directory, copy, { recursive: true });
  const [original, rewritten] = [await ledgers.open(directory), await ledgers.open(copy)];
  let batches = 0;
  const lower = (batch: AppendBatch): AppendBatch => {
    const [event, ...others] = batch.events;
    batches += 1;
    if (batches !== 2 || event === undefined) return batch;
    return { ...batch, events: [{ ...event, quantity: decimalFromNanos(1n) }, ...others] };
  };
  await fillMonth(original, 20, 3);
  const append: Ledger['append'] = (batch) => rewritten.append(lower(batch));
  await fillMonth(override<Ledger>(rewritten, { append }), 20, 3);
  return [original, rewritten];
}

test('a ledger whose past was rewritten passes for the one that was anchored', async () => {
  const [original, rewritten] = await originalAndRewritten();
  await anchorsOf(original, { configMap: true, webhook: receiver.url }).pass(MINUTE);
  await using server = await statementServer(original);
  await using cheating = await statementServer(rewritten);
  const keys = await statementKeys(server);
  const directory = await ledgers.directory();
  const [posted, listed] = [join(directory, 'posted'), join(directory, 'listed')];
  await writeFile(posted, receiver.requests[0]?.body ?? '');
  await writeFile(listed, JSON.stringify(await cluster.call('GET', PATH)));
  const honest = await downloadStatement(server);
  const forged = await downloadStatement(cheating);
  // The forger has the key, so that nothing within the file is wrong.
  expect((await verifyStatements([forged], keys))[0]?.output).toContain('OK: ');
  for (const file of [posted, listed]) {
    const [right, wrong] = await verifyStatements([honest, forged], keys, () => [file]);
    expect(right?.output).toContain('anchors: 1 of 1 are within the statement, and agree\n');
    expect(wrong).toMatchObject({ code: 1 });
    expect(wrong?.output).toMatch(/^WRONG: the chain at event \d+ is [0-9a-f]{64}, not the anchor/);
  }
});
