import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { useTestCluster } from '../../e2e/control-plane/test-cluster.ts';
import { systemClock } from '../telemetry/system-clock.ts';
import type { Connection, RequestOptions } from './connection.ts';

import { createNodeLeases, NODE_LEASES, renewalOf } from './node-leases.ts';
import { microTime } from './resource.ts';
import { createRevisionClock } from './revision-clock.ts';
import { createRevisionSurvey } from './revision-survey.ts';
import { createCapturingLogger } from './testing/capturing-logger.ts';
import { connectWith } from './testing/connect.ts';

const api = useTestCluster();
const PODS = '/api/v1/pods';
const NODES = 10;
const RENEWED_EVERY_MS = 2_000;
let connection: Connection;

/** Something that nothing dates, with the moments around it. */
interface Undated {
  readonly version: string;
  readonly before: number;
  readonly after: number;
}
let since = '';
/** Where what nothing dates is written. */
let undated = '';
const written: Undated[] = [];

const sleep = (ms: number) => systemClock.sleep(ms);

const leaseOf = (name: string) => ({
  apiVersion: 'coordination.k8s.io/v1',
  kind: 'Lease',
  metadata: { generateName: `${name}-` },
  spec: { holderIdentity: name, leaseDurationSeconds: 40, renewTime: microTime(Date.now()) },
});

async function renew(name: string, turns: number): Promise<void> {
  const lease = await api.call('POST', NODE_LEASES, leaseOf(name));
  let { metadata } = lease as { metadata: { name: string } };
  for (let turn = 0; turn < turns; turn += 1) {
    await sleep(RENEWED_EVERY_MS);
    const spec = { ...(lease['spec'] as object), renewTime: microTime(Date.now()) };
    const next = { ...lease, metadata, spec };
    const answer = await api.call('PUT', `${NODE_LEASES}/${metadata.name}`, next);
    ({ metadata } = answer as { metadata: { name: string } });
  }
}

async function writeUndated(path: string): Promise<void> {
  for (let turn = 0; turn < 8; turn += 1) {
    const before = Date.now();
    const { metadata } = await api.call('POST', path, { metadata: { generateName: 'undated-' } });
    const after = Date.now();
    const { resourceVersion: version } = metadata as { resourceVersion: string };
    written.push({ version, before, after });
    await sleep(430);
  }
}

beforeAll(async () => {
  connection = connectWith(api.kubeconfig);
  undated = `/api/v1/namespaces/${await api.createNamespace('leases')}/configmaps`;
  const { metadata } = await api.call('GET', `${PODS}?limit=1`);
  ({ resourceVersion: since } = metadata as { resourceVersion: string });
  const renewals: Promise<void>[] = [];
  for (let node = 0; node < NODES; node += 1) {
    renewals.push(renew(`node-${node}`, 3));
    await sleep(RENEWED_EVERY_MS / NODES);
  }
  await writeUndated(undated);
  await Promise.all(renewals);
}, 60_000);

afterAll(async () => {
  await connection.close();
});

describe('the Leases of nodes', () => {
  test('W34: date what nothing else was written beside, within two seconds, however long ago, with few requests', async () => {
    const asked: (RequestOptions['query'] | undefined)[] = [];
    const counted: Pick<Connection, 'request'> = {
      request: (path, options) => {
        asked.push(options?.query);
        return connection.request(path, options);
      },
    };
    const leases = createNodeLeases({
      connection: counted,
      datedPath: PODS,
      logger: createCapturingLogger(),
    });
    const survey = createRevisionSurvey({ connection, paths: [], leases, clock: systemClock });
    await survey.learn(since, new AbortController().signal);
    expect(written).toHaveLength(8);
    for (const { version, before, after } of written) {
      const { from, until } = survey.bracket(version);
      expect(from).toBeLessThanOrEqual(after);
      expect(until).toBeGreaterThanOrEqual(before);
      expect(until - from).toBeLessThanOrEqual(2_000);
    }
    expect(asked.length).toBeLessThan(20);
    for (const query of asked) expect(Number(query?.['limit'])).toBeLessThanOrEqual(100);
    // An API server that comes and goes is not asked for the same once more.
    asked.length = 0;
    await leases.read(since, survey, new AbortController().signal);
    expect(asked.length).toBeLessThanOrEqual(4);
  });

  test('that may not be read are told of once, and nothing waits for them', async () => {
    const forbidden = connectWith(await api.addUser('sees-no-leases'));
    const logger = createCapturingLogger();
    const leases = createNodeLeases({ connection: forbidden, datedPath: PODS, logger });
    const revisions = createRevisionClock();
    for (let turn = 0; turn < 2; turn += 1) {
      await leases.read(since, revisions, new AbortController().signal);
    }
    await forbidden.close();
    expect(revisions.bracket(since)).toEqual({ from: -Infinity, until: Infinity });
    expect(logger.lines.filter((line) => line.includes('leases'))).toHaveLength(1);
    expect(logger.lines.join('\n')).toContain('HTTP 403');
  });

  test.each([
    ['ahead of', '50'],
    ['behind', '5000000000'],
  ])('in another etcd, whose versions are %s the others, date nothing', async (_, datedVersion) => {
    const elsewhere: Pick<Connection, 'request'> = {
      request: async (path, options) =>
        path === NODE_LEASES
          ? connection.request(path, options)
          : {
              kind: 'ok',
              status: 200,
              body: { metadata: { resourceVersion: datedVersion }, items: [] },
            },
    };
    const logger = createCapturingLogger();
    const leases = createNodeLeases({ connection: elsewhere, datedPath: PODS, logger });
    const revisions = createRevisionClock();
    await leases.read('1', revisions, new AbortController().signal);
    expect(revisions.bracket(since)).toEqual({ from: -Infinity, until: Infinity });
    expect(logger.lines.join('\n')).toContain('another etcd');
  });

  test('W40: whose dates somebody has taken away, and which no renewal gets any more, date nothing', async () => {
    const make = async (): Promise<string> => {
      const { metadata } = await api.call('POST', undated, {
        metadata: { generateName: 'undated-' },
      });
      return (metadata as { resourceVersion: string }).resourceVersion;
    };
    const begun = await make();
    const lease = await api.call('POST', NODE_LEASES, leaseOf('bare'));
    const made = lease['metadata'] as { readonly name: string };
    const path = `${NODE_LEASES}/${made.name}`;
    const metadata = { ...made, managedFields: [{}] };
    const bare = await api.call('PUT', path, { ...lease, metadata });
    await sleep(2_500);
    const before = Date.now();
    const version = await make();
    const renewed = await api.call('PUT', path, {
      ...bare,
      spec: { ...(bare['spec'] as object), renewTime: microTime(Date.now()) },
    });
    expect(renewed['metadata']).not.toHaveProperty('managedFields');
    const logger = createCapturingLogger();
    const leases = createNodeLeases({ connection, datedPath: PODS, logger });
    const revisions = createRevisionClock();
    await leases.read(begun, revisions, new AbortController().signal);
    await api.call('DELETE', path);
    expect(revisions.bracket(version).until).toBeGreaterThanOrEqual(before);
  });

  test('of versions that the API server has forgotten leave what is newer dated', async () => {
    let lists = 0;
    const forgetful: Pick<Connection, 'request'> = {
      request: async (path, options) => {
        if (options?.query?.['resourceVersionMatch'] === undefined) {
          return connection.request(path, options);
        }
        lists += 1;
        return { kind: 'status', code: 410, reason: 'Expired', message: 'too old' };
      },
    };
    const logger = createCapturingLogger();
    const leases = createNodeLeases({ connection: forgetful, datedPath: PODS, logger });
    const revisions = createRevisionClock();
    await leases.read(since, revisions, new AbortController().signal);
    expect(lists).toBe(1);
    expect(revisions.bracket(written.at(-1)?.version ?? '').until).toBeLessThan(Date.now());
    expect(logger.lines).toEqual([]);
  });
});

describe('a renewal of a Lease', () => {
  const lease = (time: string, renewTime?: string) => ({
    metadata: { resourceVersion: '7', managedFields: [{ time }] },
    spec: { renewTime },
  });
  const second = Date.parse('2026-03-01T12:00:07Z');

  test('was in the second of the API server, near the moment that the kubelet says', () => {
    const [renewal] = renewalOf(lease('2026-03-01T12:00:07Z', '2026-03-01T12:00:07.800000Z'));
    expect(renewal?.when).toEqual({ from: second + 550, until: second + 1_300 });
  });

  test.each(['2026-03-01T12:01:00.000000Z', '2026-03-01T11:00:00.000000Z', 'soon', undefined])(
    'was in the second of the API server, whatever a kubelet says whose clock is not in time: %s',
    (said) => {
      const [renewal] = renewalOf(lease('2026-03-01T12:00:07Z', said));
      expect(renewal?.when).toEqual({ from: second, until: second + 1_500 });
    },
  );

  test('that nobody dates says nothing', () => {
    expect(renewalOf({ metadata: { resourceVersion: '7' }, spec: {} })).toEqual([]);
    expect(renewalOf('nonsense')).toEqual([]);
  });
});
