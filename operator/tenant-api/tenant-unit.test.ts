import pLimit from 'p-limit';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { Connection } from '../kubernetes/connection.ts';
import { createCapturingLogger } from '../kubernetes/testing/capturing-logger.ts';
import { createManualClock, type ManualClock } from '../kubernetes/testing/manual-clock.ts';
import {
  type ScriptedApiServer,
  startScriptedApiServer,
} from '../kubernetes/testing/scripted-api-server.ts';
import { NODE_SETTINGS } from '../metering/meters/testing/objects.ts';
import { override } from '../model/override.ts';
import { createObservation } from '../metering/timelines/observation.ts';
import { FirstLists, DEFAULT_LIMITS, type TenantLimits } from './limits.ts';
import { SharedMemory } from './memory.ts';
import { PrivateNodes } from './private-nodes.ts';
import { TenantUnit } from './tenant-unit.ts';
import { readHere } from './testing/read-here.ts';
import { tenantCluster } from './testing/tenant-clusters.ts';

const cluster = tenantCluster('a');
let server: ScriptedApiServer;
let connection: Connection;
let clock: ManualClock;
let unit: TenantUnit;

beforeEach(async () => {
  server = await startScriptedApiServer();
  connection = new Connection(server.kubeConfig);
  clock = createManualClock();
});

afterEach(async () => {
  await unit.close();
  await connection.close();
  await server.close();
});

/** Every collection of the server's is the nodes of the tenant cluster. */
function nodesOf(to: Connection): Connection {
  const asPods = (path: string): string => path.replace(/nodes$/, 'pods');
  return override<Connection>(to, {
    request: (path, options) => to.request(asPods(path), options),
    bytes: (path, options) => to.bytes(asPods(path), options),
    stream: (path, options) => to.stream(asPods(path), options),
  });
}

function start(limits: Partial<TenantLimits>) {
  const logger = createCapturingLogger();
  unit = new TenantUnit({
    id: cluster.id,
    observation: createObservation({
      nodeSettings: () => NODE_SETTINGS,
      billedUntil: (present) => present,
    }),
    privateNodes: new PrivateNodes({
      host: { find: () => undefined },
      cluster: () => cluster,
      isKnown: () => false,
      isProven: () => false,
      logger,
    }),
    machines: { lives: () => false, release: () => undefined },
    hostNodes: {
      resource: { plural: 'nodes of this cluster' },
      health: () => ({ state: 'synced', since: 0, freshAt: clock.now() }),
    },
    hasPrivateNodes: false,
    resume: {},
    limits: { ...DEFAULT_LIMITS, ...limits },
    firstLists: new FirstLists(),
    memory: new SharedMemory(),
    limit: pLimit(1),
    reader: readHere,
    clock,
    random: () => 0.5,
    logger,
  });
  unit.take({ kind: 'reachable', cluster, connection: nodesOf(connection) });
  return { pauses: () => logger.lines.filter((line) => line.includes('its API is not read for')) };
}

/** As long as a busy machine may need. */
const until = (holds: () => boolean) => vi.waitUntil(holds, { timeout: 20_000 });

const UNCHANGED = `${JSON.stringify({
  type: 'MODIFIED',
  object: { metadata: { name: 'n', uid: 'u', resourceVersion: '7', labels: {} } },
})}\n`;

describe('a tenant’s API keeps the operator busy with what changes nothing', () => {
  test.each<[string, Partial<TenantLimits>, string, string]>([
    ['events', { events: 500 }, UNCHANGED, 'more than 500 events of watches in 60 seconds'],
    ['bytes', { receivedBytes: 50_000 }, UNCHANGED, 'more than 50000 bytes received in 60 seconds'],
    ['empty lines', { receivedBytes: 9_000 }, '\n', 'more than 9000 bytes received in 60 seconds'],
  ])('endless unchanged %s of a watch', async (_, limits, text, reason) => {
    start(limits);
    await until(() => server.openWatches === 1);
    for (let chunk = 0; chunk < 10; chunk += 1) server.write(text.repeat(1_000));
    await until(() => unit.failure() !== undefined);
    expect(unit.failure()).toEqual({ tenantCluster: cluster.id, reason, since: clock.now() });
    await until(() => server.openWatches === 0);
  });

  test('pages without an end', async () => {
    const page = { metadata: { resourceVersion: '1', continue: 'more' }, items: [] };
    server.always('list', { kind: 'answer', code: 200, body: page });
    start({ requests: 20 });
    await until(() => unit.failure() !== undefined);
    expect(unit.failure()?.reason).toBe('more than 20 requests in 60 seconds');
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(server.requests.length).toBeLessThanOrEqual(21);
  });
});

test('each time again it is left alone for longer, and a good hour is a new beginning', async () => {
  const page = { metadata: { resourceVersion: '1' } };
  const bad = { kind: 'answer', code: 200, body: { ...page, items: [badNode()] } } as const;
  server.always('list', bad);
  const { pauses } = start({});
  const minutes = [5, 10, 20, 40, 60, 60];
  for (const [index, pause] of minutes.entries()) {
    await until(() => pauses().length === index + 1);
    expect(pauses().at(-1)).toContain(`not read for ${pause} minutes: nodes metadata.name`);
    if (index === minutes.length - 1) server.always('list', undefined);
    const requested = server.requests.length;
    await clock.advance(pause * 60_000 - 1);
    expect(server.requests.length).toBe(requested);
    await clock.advance(1);
  }
  await until(() => unit.failure() === undefined && server.openWatches === 1);
  await clock.advance(3_600_000);
  await until(() => server.openWatches === 1);
  server.write(UNCHANGED.replace('"n"', '"N"'));
  await until(() => pauses().length === minutes.length + 1);
  expect(pauses().at(-1)).toContain('not read for 5 minutes');
});

test('a node that cannot be followed again leaves the API alone, and is followed when it comes into use', async () => {
  start({});
  const { nodes } = unit.observation;
  const refresh = vi.spyOn(nodes, 'refreshing').mockImplementationOnce(() => {
    throw new RangeError('too deep');
  });
  unit.refresh('nodes');
  expect(unit.failure()?.reason).toBe('nodes cannot be followed: too deep');
  await until(() => clock.sleepers > 0);
  await clock.advance(300_000);
  await until(() => unit.failure() === undefined);
  expect(refresh).toHaveBeenCalledTimes(2);
});

test('nodes whose meaning changes once more, while they are followed again in time slices, keep what it was', async () => {
  start({});
  const { nodes } = unit.observation;
  const meant: string[] = [];
  let meaning = 'first';
  let worked = 0;
  vi.spyOn(clock, 'monotonic').mockImplementation(() => worked);
  vi.spyOn(nodes, 'refreshing').mockImplementation(function* () {
    for (const node of ['a', 'b', 'c']) {
      meant.push(`${node} ${meaning}`);
      worked += 30;
      yield;
    }
  });
  unit.refresh('nodes');
  meaning = 'second';
  unit.refresh('nodes');
  await until(() => meant.length === 6);
  expect(meant.slice(-3)).toEqual(['a second', 'b second', 'c second']);
});

function badNode() {
  return { metadata: { name: 'N', uid: 'u', resourceVersion: '7' } };
}
