import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { useOwnTestCluster } from '../../e2e/control-plane/test-cluster.ts';
import { replaceSpec } from './testing/operator-process.ts';
import {
  type PolicyWorld,
  startPolicyWorld,
  type TenantName,
  WINDOW_MS,
} from './testing/policy-world.ts';

const host = useOwnTestCluster();
const tenantApi = useOwnTestCluster();

const ENVIRONMENT = {
  RECONCILE_INTERVAL: '1s',
  CPU_MEMORY_BASIS: 'requests',
  METER_BY_NAMESPACE: 'true',
  CUSTOM_METRICS: 'tokens_used:tokens',
  RETENTION: '1h',
};
const PATIENCE = { timeout: 120_000, interval: 250 };
const TEST_TIMEOUT = { timeout: 300_000 };

let world: PolicyWorld;
/**
 * When the spec in force was applied, and how many queries each Prometheus had been asked by then.
 */
let since = 0;
let requestedBefore: readonly number[] = [];

beforeAll(async () => {
  world = await startPolicyWorld(host, tenantApi, ENVIRONMENT);
  await host.call('POST', `/api/v1/namespaces/${world.namespace}/secrets`, {
    metadata: { name: 'prometheus' },
    stringData: { password: 'set-password', token: 'changed-token', tenant: 'org-7' },
  });
  await begin();
}, 600_000);

afterAll(async () => {
  await world.stop();
});

async function begin(): Promise<void> {
  since = Date.now();
  requestedBefore = world.prometheus.map(({ queries: requested }) => requested.length);
}

async function apply(spec: object): Promise<void> {
  await world.apply(spec);
  await begin();
}

const secret = (key: string) => ({ name: 'prometheus', key });

interface Requested {
  readonly server: number;
  readonly by: 'platform' | 'namespace';
  readonly authorization: unknown;
  readonly organization: unknown;
}

/** The query about the newest window, of those that were made since the spec was applied. */
function requested<Part extends keyof Requested>(part: Part): Requested[Part] | undefined {
  const [newest] = world.prometheus
    .flatMap(({ queries }, server) =>
      queries.slice(requestedBefore[server] ?? 0).map((query) => ({ server, query })),
    )
    .toSorted((a, b) => Number(b.query.time) - Number(a.query.time));
  if (newest === undefined) return undefined;
  const { headers, query } = newest.query;
  const { authorization, 'x-scope-orgid': organization } = headers;
  const by = query.includes('vcluster_platform_instance') ? 'platform' : 'namespace';
  const found: Requested = { server: newest.server, by, authorization, organization };
  return found[part];
}

const isFound = async (name: TenantName): Promise<boolean> =>
  (await world.clusters()).some((cluster) => cluster.name === name);
const basic = (text: string): string => `Basic ${Buffer.from(text).toString('base64')}`;

interface Row {
  readonly field: string;
  /** What the engine does. */
  readonly effect: () => unknown;
  /** Without any policy. */
  readonly environment: unknown;
  /**
   * The field's value and what it does, in each phase that is about it; undefined leaves the field
   * out.
   */
  readonly phases: readonly (readonly [value: unknown, effect: unknown] | undefined)[];
  /** A value that the API server refuses, and what it says. */
  readonly invalid: readonly [value: unknown, message: string];
}

const NODE = ['tenant_private_node_hours'];
const POD = (namespace: string) => `tenant_cpu_core_hours ${namespace}`;
const billed = async (): Promise<unknown> => {
  const found = await world.billed(since);
  return found.filter((line) => NODE.includes(line) || line.startsWith('tenant_cpu_core_hours '));
};

/** Whether nodes of `own` are held. */
const tooManyNodes = async (): Promise<boolean> =>
  (await world.failure('own'))?.includes('maxPrivateNodes') ?? false;

const ROWS: readonly Row[] = [
  {
    field: 'discovery.namespaces',
    effect: () => isFound('outside'),
    environment: true,
    phases: [
      [['plain', 'fallback', 'own', 'far', 'here', 'there'], false],
      [[], true],
    ],
    invalid: [['Upper'], 'should match'],
  },
  {
    field: 'discovery.platformCluster',
    effect: async () =>
      (await world.clusters()).flatMap(({ instance, name }) => (instance ? [name] : [])).toSorted(),
    environment: ['here', 'there'],
    phases: [
      ['here', ['here']],
      ['there', ['there']],
    ],
    invalid: ['', 'at least 1 chars'],
  },
  {
    field: 'discovery.trustPlatformMetadata',
    effect: async () => (await world.clusters()).find(({ name }) => name === 'here')?.tenant,
    environment: 'tenant-here-here',
    phases: [
      [true, 'told-by-here'],
      [false, 'tenant-here-here'],
    ],
    invalid: ['yes', 'must be of type boolean'],
  },
  {
    field: 'tenantAPI.kubeconfigSecret',
    effect: () => world.failure('plain'),
    environment: 'no kubeconfig: Secret "plain/svc-kubeconfig": missing',
    phases: [
      ['set-kubeconfig', 'no kubeconfig: Secret "plain/set-kubeconfig": missing'],
      ['changed-kubeconfig', 'no kubeconfig: Secret "plain/changed-kubeconfig": missing'],
    ],
    invalid: ['Upper', 'should match'],
  },
  {
    field: 'tenantAPI.adminFallback',
    effect: async () => (await world.failure('fallback'))?.split(':').slice(0, 2).join(':'),
    environment: 'no kubeconfig: Secret "fallback/svc-kubeconfig"',
    phases: [
      [true, 'kubeconfig refused: Secret "fallback/vc-fallback"'],
      [false, 'no kubeconfig: Secret "fallback/changed-kubeconfig"'],
    ],
    invalid: ['yes', 'must be of type boolean'],
  },
  {
    field: 'tenantAPI.allowedHosts',
    effect: async () =>
      (await world.failure('far'))?.includes('spec.tenantAPI.allowedHosts') ?? false,
    environment: true,
    phases: [
      [['127.0.0.1'], true],
      [['127.0.0.1', '198.51.100.0/24'], false],
      [['127.0.0.1'], true],
    ],
    invalid: [['169.254.169.254'], 'link-local'],
  },
  {
    field: 'tenantAPI.enabled',
    effect: async () => (await world.failure('plain')) === undefined,
    environment: false,
    phases: [undefined, undefined, undefined, [false, true]],
    invalid: ['yes', 'must be of type boolean'],
  },
  {
    field: 'enforcement.mode',
    effect: () => world.marks(),
    environment: 'none',
    phases: [
      ['annotate', 'annotated'],
      ['enforce', 'suspended'],
    ],
    invalid: ['punish', 'Unsupported value'],
  },
  {
    field: 'enforcement.rules',
    effect: () => world.alert(),
    environment: expect.stringContaining('no state and no rule'),
    phases: [
      [[{ event: 'customer.checked', state: 'warning' }], 'warning'],
      [[{ event: 'customer.checked', state: 'delinquent' }], 'delinquent'],
    ],
    invalid: [[{ event: 'customer.checked', state: 'poor' }], 'Unsupported value'],
  },
  {
    field: 'retention',
    effect: () => world.takesOldUsage(),
    environment: false,
    phases: [
      ['3h', true],
      ['90m', false],
    ],
    invalid: ['1s', 'must be a duration of at least 1h'],
  },
  {
    field: 'ingest.unknownTenants',
    effect: () => world.heldOfStranger(),
    environment: 1,
    phases: [
      ['create', 0],
      ['hold', 1],
    ],
    invalid: ['bill', 'Unsupported value'],
  },
  {
    field: 'privateNodeBilling',
    effect: billed,
    environment: [],
    phases: [
      [undefined, NODE],
      ['usage', [POD('lab'), POD('shop')]],
      ['usage', [POD('shop')]],
    ],
    invalid: ['pods', 'Unsupported value'],
  },
  {
    field: 'privateNodeTrust',
    effect: () => world.capacityTypes(since),
    environment: [],
    phases: [undefined, ['provider', ['on-demand']], ['tenant', ['spot']], undefined],
    invalid: ['host', 'Unsupported value'],
  },
  {
    field: 'maxPrivateNodes',
    effect: () => tooManyNodes(),
    environment: false,
    phases: [
      [1, true],
      [2, false],
    ],
    invalid: [-1, 'greater than or equal to 0'],
  },
  {
    field: 'excludeNamespaces',
    effect: billed,
    environment: [],
    phases: [undefined, undefined, [['lab'], [POD('shop')]]],
    invalid: [['Upper'], 'should match'],
  },
  {
    field: 'prometheus.url',
    effect: () => requested('server'),
    environment: 0,
    phases: [
      [() => world.prometheus[1]?.url, 1],
      [() => world.prometheus[2]?.url, 2],
    ],
    invalid: ['prometheus', 'must be an absolute http or https URL'],
  },
  {
    field: 'prometheus.preset',
    effect: () => requested('by'),
    environment: 'namespace',
    phases: [
      ['vcluster-platform', 'platform'],
      ['default', 'namespace'],
    ],
    invalid: ['thanos', 'Unsupported value'],
  },
  {
    field: 'prometheus.basicAuth',
    effect: () => requested('authorization'),
    environment: basic('env:env-password'),
    phases: [
      [{ username: 'meter', passwordSecretRef: secret('password') }, basic('meter:set-password')],
    ],
    invalid: [{ username: 'meter' }, 'passwordSecretRef: Required value'],
  },
  {
    field: 'prometheus.bearerTokenSecretRef',
    effect: () => requested('authorization'),
    environment: basic('env:env-password'),
    phases: [undefined, [secret('token'), 'Bearer changed-token']],
    invalid: [{ name: 'prometheus' }, 'key: Required value'],
  },
  {
    field: 'prometheus.headers',
    effect: () => requested('organization'),
    environment: undefined,
    phases: [
      [[{ name: 'X-Scope-OrgID', value: 'org-1' }], 'org-1'],
      [[{ name: 'X-Scope-OrgID', valueSecretRef: secret('tenant') }], 'org-7'],
    ],
    invalid: [[{ name: 'X-Scope-OrgID' }], 'give either value or valueSecretRef'],
  },
];

const PHASES = ['set', 'changed', 'changed again', 'switched off'] as const;

/** The spec of a phase: the values of all rows at the places of their fields. */
function specOf(phase: number): object {
  const spec: Record<string, Record<string, unknown>> & Record<string, unknown> = {};
  for (const { field, phases } of ROWS) put(spec, field, phases[phase]?.[0]);
  return spec;
}

function put(spec: Record<string, unknown>, field: string, given: unknown): void {
  const value: unknown = typeof given === 'function' ? given() : given;
  if (value === undefined) return;
  const [first = '', second] = field.split('.');
  spec[first] =
    second === undefined ? value : Object.assign(spec[first] ?? {}, { [second]: value });
}

async function expectEffects(rows: readonly (readonly [Row, unknown])[]): Promise<void> {
  await Promise.all(
    rows.map(async ([{ field, effect }, expected]) => {
      await expect.poll(async () => effect(), { ...PATIENCE, message: field }).toEqual(expected);
    }),
  );
}

const WITHOUT = ROWS.map((row): readonly [Row, unknown] => [row, row.environment]);

describe('the fields of the MeteringPolicy', () => {
  test('without any, the environment holds', TEST_TIMEOUT, () => expectEffects(WITHOUT));

  test.each(PHASES.map((name, phase) => ({ name, phase })))(
    'take effect when they are $name',
    TEST_TIMEOUT,
    async ({ phase }) => {
      await apply(specOf(phase));
      const about = ROWS.flatMap((row) => {
        const expected = row.phases[phase];
        return expected === undefined ? [] : [[row, expected[1]] as const];
      });
      await expectEffects(about);
      expect(await world.stalled()).toBeUndefined();
    },
  );

  test('give their values back when they are removed', TEST_TIMEOUT, async () => {
    await apply({});
    await expectEffects(WITHOUT);
  });

  test('bill each window once and leave out none, although everything was built again for other namespaces', async () => {
    const windows = await world.instanceWindows();
    const [first = 0] = windows;
    expect(windows.length).toBeGreaterThan(5);
    expect(windows).toEqual(windows.map((_, index) => first + index * WINDOW_MS));
  });

  test.each(ROWS.map((row) => ({ field: row.field, row })))(
    '$field: a wrong value is refused by the API server',
    async ({ row }) => {
      const spec: Record<string, unknown> = {};
      if (row.field.startsWith('prometheus.')) put(spec, 'prometheus.url', 'http://prometheus');
      put(spec, row.field, row.invalid[0]);
      const refusal = await world.refusal('meteringpolicies', spec);
      expect(refusal).toContain(row.invalid[1]);
      expect(refusal).toContain(row.field);
    },
  );

  test(
    'a credential that is gone leaves the last good server in use, and the other settings in force',
    TEST_TIMEOUT,
    async () => {
      const url = world.prometheus[1]?.url;
      await apply({ prometheus: { url, bearerTokenSecretRef: secret('token') } });
      await expect.poll(() => requested('authorization'), PATIENCE).toBe('Bearer changed-token');
      await apply({ prometheus: { url, bearerTokenSecretRef: secret('other') }, retention: '3h' });
      await expect.poll(() => world.stalled(), PATIENCE).toContain('no such key: "other"');
      expect(await world.takesOldUsage()).toBe(true);
      await begin();
      await expect.poll(() => requested('authorization'), PATIENCE).toBe('Bearer changed-token');
      await apply({});
      await expect.poll(() => world.stalled(), PATIENCE).toBeUndefined();
    },
  );
});

describe('the fields of a TenantOverride', () => {
  const OVERRIDES = '/apis/meterfeed.io/v1alpha1/tenantoverrides';
  const match = { namespace: 'own', name: 'own' };
  const override = (metering: object) => ({
    apiVersion: 'meterfeed.io/v1alpha1',
    kind: 'TenantOverride',
    metadata: { name: 'own' },
    spec: { match, metering },
  });

  test(
    'privateNodeBilling and excludeNamespaces win over the policy, and are given back',
    TEST_TIMEOUT,
    async () => {
      await apply({ tenantAPI: { allowedHosts: ['127.0.0.1'] }, excludeNamespaces: ['shop'] });
      await expect.poll(billed, PATIENCE).toEqual(NODE);
      await host.call('POST', OVERRIDES, override({ privateNodeBilling: 'usage' }));
      await begin();
      await expect.poll(billed, PATIENCE).toEqual([POD('lab')]);
      await replaceSpec(host, `${OVERRIDES}/own`, {
        match,
        metering: { privateNodeBilling: 'usage', excludeNamespaces: ['lab'] },
      });
      await begin();
      await expect.poll(billed, PATIENCE).toEqual([POD('shop')]);
      await host.call('DELETE', `${OVERRIDES}/own`);
      await begin();
      await expect.poll(billed, PATIENCE).toEqual(NODE);
    },
  );

  test(
    'privateNodeTrust and privateNodeLabels say what nodes of their own are, and are given back',
    TEST_TIMEOUT,
    async () => {
      const types = () => world.capacityTypes(since);
      await apply({ tenantAPI: { allowedHosts: ['127.0.0.1'] } });
      await expect.poll(types, PATIENCE).toEqual(['spot']);
      const labels = { 'karpenter.sh/capacity-type': 'reserved' };
      const stated = { privateNodeTrust: 'provider', privateNodeLabels: labels };
      await host.call('POST', OVERRIDES, override(stated));
      await begin();
      await expect.poll(types, PATIENCE).toEqual(['reserved']);
      await replaceSpec(host, `${OVERRIDES}/own`, {
        match,
        metering: { privateNodeTrust: 'provider' },
      });
      await begin();
      await expect.poll(types, PATIENCE).toEqual(['on-demand']);
      await host.call('DELETE', `${OVERRIDES}/own`);
      await begin();
      await expect.poll(types, PATIENCE).toEqual(['spot']);
    },
  );

  test('maxPrivateNodes holds what is more, and is given back', TEST_TIMEOUT, async () => {
    await apply({ tenantAPI: { allowedHosts: ['127.0.0.1'] } });
    await host.call('POST', OVERRIDES, override({ maxPrivateNodes: 1 }));
    await expect.poll(tooManyNodes, PATIENCE).toBe(true);
    await host.call('DELETE', `${OVERRIDES}/own`);
    await expect.poll(tooManyNodes, PATIENCE).toBe(false);
  });

  test.each([
    [{ maxPrivateNodes: 20_001 }, 'spec.metering.maxPrivateNodes: Invalid value'],
    [{ privateNodeTrust: 'host' }, 'spec.metering.privateNodeTrust: Unsupported value'],
    [{ privateNodeLabels: { '-': 'spot' } }, 'a key must be a label key'],
    [{ privateNodeLabels: { 'karpenter.sh/capacity-type': 'a b' } }, 'should match'],
    [{ privateNodeBilling: 'pods' }, 'spec.metering.privateNodeBilling: Unsupported value'],
    [{ excludeNamespaces: ['Upper'] }, 'spec.metering.excludeNamespaces[0]'],
  ])('%o is refused by the API server', async (metering, message) => {
    expect(await world.refusal('tenantoverrides', { match, metering })).toContain(message);
  });
});
