import { expect, test } from 'vitest';
import type { RawObject } from '../../kubernetes/source.ts';
import type { Ledger, RecordChange } from '../../ledger/ledger.ts';
import { createMemoryLedger } from '../../ledger/testing/memory-ledger.ts';
import { gpuNode, N1 } from '../meters/testing/gpu-nodes.ts';
import { cluster, NODE_SETTINGS, pod } from '../meters/testing/objects.ts';
import { createObservation } from '../timelines/observation.ts';
import { createCapturingLogger } from '../../kubernetes/testing/capturing-logger.ts';
import { restoreJournal, STATE_KEY, TENANT_CLUSTERS_KEY, TIMELINE_PREFIX } from './journal.ts';
import { createHandTenant } from './testing/hand-tenant.ts';
import { at, clockAt, eventsOf, life, pass, running, startProcess } from './testing/harness.ts';
import { restoreTenantApis } from './tenant-journal.ts';

const TOOLS = { logger: createCapturingLogger(), clock: { monotonic: () => 0 } };

function observe() {
  return createObservation({ nodeSettings: () => NODE_SETTINGS, billedUntil: (now) => now });
}

/** Writes records as they stood in a ledger before 0.1.0. */
async function ledgerWith(records: Readonly<Record<string, string>>): Promise<Ledger> {
  const ledger = createMemoryLedger();
  await ledger.writeRecords(Object.entries(records).map(([key, value]) => ({ key, value })));
  return ledger;
}

const PROGRESS = '{"end":1772352060000,"meteredFrom":1772352000000}';
const STATE_OF_VERSION_1 = `{"v":1,"projection":3,"state":{"scopes":{"pods":${PROGRESS}},"apart":{"pods/tenant-b":${PROGRESS}},"credits":[{"identity":{"tenant":"a"},"amount":{"$bigint":"-30000000000000"},"ms":-30000,"since":1772352060000}],"watches":{"pod":{"resourceVersion":"7","knownAt":1772352060000}},"tenantClustersObservedAt":1772352050000}}`;
const CLUSTERS_OF_VERSION_1 =
  '{"v":1,"clusters":[{"from":1772352000000,"to":null,"cluster":{"id":"a","namespace":"a","name":"a","tenant":"a","metering":{"privateNodeBilling":"node","ownNodeTrust":"provider","maxOwnNodes":7,"excludeNamespaces":[],"ownNodeLabels":{"spot":"yes"}}},"mapped":[{"namespace":"b","from":1772352000000,"to":1772352060000,"unsureFrom":1500,"unsureTo":2500}]}]}';
const POD_OF_VERSION_2 =
  '{"v":2,"view":{"uid":"p","name":"p","namespace":"a","resourceVersion":"7"},"spans":[{"from":1772352000000,"to":1772352030000,"state":{"cpu":{"$bigint":"1"}},"unsureFrom":1500,"unsureTo":2500}],"billed":[{"from":1772352000000,"to":null,"state":{"cpu":{"$bigint":"1"}},"unsureFrom":700}],"versionAt":1772352030000,"finished":true,"gone":false}';
const NODE_OF_VERSION_2 =
  '{"v":2,"view":{"uid":"n","name":"n","namespace":"","resourceVersion":"7"},"spans":[{"from":1772352000000,"to":null,"state":{"cpu":{"$bigint":"1"},"provenBy":"Machine fleet/n, ownNodeLabels","decidedBy":{"zone":"Machine fleet/n, ownNodeLabels: zone=b"}}}],"versionAt":1772352000000,"finished":false,"gone":false}';

test('the time that closed windows billed too much, and that of separate namespaces, is lost by an upgrade', async () => {
  const ledger = await ledgerWith({
    [STATE_KEY]: STATE_OF_VERSION_1,
    [TENANT_CLUSTERS_KEY]: CLUSTERS_OF_VERSION_1,
  });
  const { state } = await restoreJournal(ledger, observe(), TOOLS);
  const progress = { end: 1_772_352_060_000, meteredFrom: 1_772_352_000_000 };
  expect(state).toEqual({
    scopes: { pods: progress },
    separate: { 'pods/tenant-b': progress },
    reversals: [
      { identity: { tenant: 'a' }, amount: -30_000_000_000_000n, ms: -30_000, since: progress.end },
    ],
    watches: { pod: { resourceVersion: '7', knownAt: progress.end } },
    tenantClustersObservedAt: 1_772_352_050_000,
  });
});

test('whom to trust about private nodes, and how many count, is lost by an upgrade', async () => {
  const ledger = await ledgerWith({
    [STATE_KEY]: STATE_OF_VERSION_1,
    [TENANT_CLUSTERS_KEY]: CLUSTERS_OF_VERSION_1,
  });
  const { tenantClusters } = observe();
  await restoreJournal(ledger, { ...observe(), tenantClusters }, TOOLS);
  expect(tenantClusters.snapshot()).toEqual([
    {
      from: 1_772_352_000_000,
      to: null,
      cluster: {
        id: 'a',
        namespace: 'a',
        name: 'a',
        tenant: 'a',
        metering: {
          privateNodeBilling: 'node',
          privateNodeTrust: 'provider',
          maxPrivateNodes: 7,
          excludeNamespaces: [],
          privateNodeLabels: { spot: 'yes' },
        },
      },
      mapped: [
        {
          namespace: 'b',
          from: 1_772_352_000_000,
          to: 1_772_352_060_000,
          uncertainFrom: 1_500,
          uncertainTo: 2_500,
        },
      ],
    },
  ]);
});

test('how uncertain a change was, and who proved a node, is lost by an upgrade', async () => {
  const ledger = await ledgerWith({
    'journal/tenant-api-state/a': `{"v":1,"projection":3,"state":{"progress":${PROGRESS},"hasOwnNodes":true,"watches":{"pod":{"knownAt":1772352060000},"node":{"knownAt":1772352060000}}}}`,
    'journal/tenant-api/a/pod/p': POD_OF_VERSION_2,
    'journal/tenant-api/a/node/n': NODE_OF_VERSION_2,
  });
  const observation = observe();
  const [restored] = await restoreTenantApis(ledger, () => observation, TOOLS);
  expect(restored?.hasPrivateNodes).toBe(true);
  const [timeline] = observation.pods.inNamespace('a');
  expect(timeline?.spans).toEqual([
    {
      from: 1_772_352_000_000,
      to: 1_772_352_030_000,
      state: { cpu: 1n },
      uncertainFrom: 1_500,
      uncertainTo: 2_500,
    },
  ]);
  const [node] = observation.nodes.inNamespace('');
  expect(node?.spans[0]?.state).toEqual({
    cpu: 1n,
    provenBy: 'Machine fleet/n, privateNodeLabels',
    decidedBy: { zone: 'Machine fleet/n, privateNodeLabels: zone=b' },
  });
});

/** Gives each field of the journal the name that it had before 0.1.0. */
async function makeOlder(ledger: Ledger): Promise<string> {
  const changes: RecordChange[] = [];
  for await (const [key, text] of ledger.records('journal/')) {
    const isTimeline = key.startsWith(TIMELINE_PREFIX) || key.startsWith('journal/tenant-api/');
    const value = text
      .replace(isTimeline ? '"v":3' : '"v":2', isTimeline ? '"v":2' : '"v":1')
      .replaceAll('"uncertainFrom":', '"unsureFrom":')
      .replaceAll('"uncertainTo":', '"unsureTo":')
      .replaceAll('"separate":', '"apart":')
      .replaceAll('"reversals":', '"credits":')
      .replaceAll('"hasPrivateNodes":', '"hasOwnNodes":')
      .replaceAll('"privateNodeTrust":', '"ownNodeTrust":')
      .replaceAll('"maxPrivateNodes":', '"maxOwnNodes":');
    changes.push({ key, value });
  }
  await ledger.writeRecords(changes);
  return changes.map(({ value }) => value).join('\n');
}

/**
 * The events of two processes on one ledger. Meanwhile `between` may rewrite the journal. A pod
 * that finished within a closed window is reported late, so a reversal waits for the second
 * process.
 */
async function eventsAcross(between: (ledger: Ledger) => Promise<unknown>) {
  const clock = clockAt(-20);
  const ledger = createMemoryLedger();
  const finished = pod({ ...life, phase: 'Succeeded', finishedAt: at(30) });
  const later = pod({ ...life, name: 'later', createdAt: at(100), startedAt: at(100) });
  const start = async (pods: readonly RawObject[]) => {
    const process = await startProcess({
      ledger,
      clock,
      objects: { pods },
      restoreTenants: ({ tenantClusters }) => {
        const tenant = createHandTenant({ id: cluster('b').id, clock, tenantClusters });
        tenant.node(gpuNode({ ...N1, name: 'n1' }));
        return [tenant];
      },
    });
    process.discover([cluster('a'), cluster('b', { maxPrivateNodes: 1 }, { namespace: 'other' })]);
    return process;
  };
  const first = await start([running]);
  await pass(clock, 20 + 65);
  first.pods.apply(finished);
  await pass(clock, 60);
  const open = first.collector.reports().next().value?.openReversalSeconds;
  await first.stop();
  await between(ledger);
  const second = await start([finished, later]);
  await pass(clock, 120);
  await second.stop();
  return { open, events: await eventsOf(ledger), logs: second.logs };
}

test('an upgrade changes what is billed', async () => {
  let older = '';
  const upgraded = await eventsAcross(async (ledger) => {
    older = await makeOlder(ledger);
  });
  const unchanged = await eventsAcross(async () => undefined);
  for (const name of ['credits', 'hasOwnNodes', 'ownNodeTrust', 'maxOwnNodes']) {
    expect(older).toContain(`"${name}":`);
  }
  expect(upgraded.open).toBeGreaterThan(0);
  expect(upgraded.events).toEqual(unchanged.events);
  expect(
    upgraded.events.some(({ properties }) => Number(properties?.['carried_seconds']) < 0),
  ).toBe(true);
  expect(upgraded.logs).toEqual(unchanged.logs);
});
