import { afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { useOwnTestCluster } from '../../e2e/control-plane/test-cluster.ts';
import type { DestinationSettings } from '../settings/settings.ts';
import type { WebhookSettings } from '../destinations/webhook/settings.ts';
import type { Condition } from '../kubernetes/conditions.ts';
import { type ControllersRig, startControllers } from './testing/controllers-rig.ts';
import { clusterOf, progressOf, tenantsOf, windowsOf } from './testing/facts.ts';
import { installCustomResources } from './testing/install.ts';
import { manifest } from './testing/objects.ts';
import { PLURALS, type Plural } from './testing/schemas.ts';

const cluster = useOwnTestCluster();

/** Found wherever a credential leaked to. */
const CANARY = 'canary-5f2c';
const PATIENCE = { timeout: 10_000, interval: 20 };

let namespace = '';
let rig: ControllersRig;

interface Live {
  readonly metadata: {
    readonly uid: string;
    readonly generation: number;
    readonly resourceVersion: string;
    readonly finalizers?: readonly string[];
  };
  readonly status?: {
    readonly conditions?: readonly Condition[];
    readonly observedGeneration?: number;
    readonly [field: string]: unknown;
  };
}

interface Named {
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly annotations?: Readonly<Record<string, string>>;
  };
  readonly [field: string]: unknown;
}

beforeAll(async () => {
  await installCustomResources(cluster);
});

beforeEach(async () => {
  namespace = await cluster.createNamespace('operator');
  rig = await start();
});

afterEach(async () => {
  rig.retirement = { kind: 'retired' };
  for (const plural of PLURALS) await cluster.call('DELETE', `${PATH}/${plural}`);
  await vi.waitFor(async () => {
    if ((await list('billingdestinations')).length > 0) throw new Error('still there');
  }, PATIENCE);
  await rig.stop();
});

function start(environment: Readonly<Record<string, string>> = {}): Promise<ControllersRig> {
  return startControllers({ kubeconfig: cluster.kubeconfig, namespace, environment });
}

const PATH = '/apis/meterfeed.io/v1alpha1';

async function apply(plural: Plural, name: string, spec: object): Promise<void> {
  await put(`${PATH}/${plural}`, { ...manifest(plural, spec, name) });
}

/** Creates the object, or replaces what is the user's of it. */
async function put(path: string, object: Named): Promise<void> {
  const { name } = object.metadata;
  await expect
    .poll(async () => {
      const { status, body } = await cluster.request('GET', `${path}/${name}`);
      if (status === 404) return (await cluster.request('POST', path, object)).status;
      const { metadata } = body;
      return (await cluster.request('PUT', `${path}/${name}`, { ...object, metadata })).status;
    }, PATIENCE)
    .toSatisfy((status: number) => status === 200 || status === 201);
}

async function list(plural: Plural): Promise<readonly Live[]> {
  const { items } = (await cluster.call('GET', `${PATH}/${plural}`)) as { items: readonly Live[] };
  return items;
}

async function remove(plural: Plural, name: string): Promise<void> {
  await cluster.call('DELETE', `${PATH}/${plural}/${name}`);
}

async function get(plural: Plural, name: string): Promise<Live | undefined> {
  const { status, body } = await cluster.request('GET', `${PATH}/${plural}/${name}`);
  return status === 200 && isLive(body) ? body : undefined;
}

function isLive(body: object): body is Live {
  return 'metadata' in body;
}

/** `True Delivering`; undefined while the condition is absent. */
async function condition(plural: Plural, name: string, type: string): Promise<string | undefined> {
  const object = await get(plural, name);
  const found = object?.status?.conditions?.find((each) => each.type === type);
  return found && `${found.status} ${found.reason}`;
}

const ready = (plural: Plural, name: string) => condition(plural, name, 'Ready');

async function secret(name: string, values: Readonly<Record<string, string>>): Promise<void> {
  await put(`/api/v1/namespaces/${namespace}/secrets`, {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name, namespace },
    stringData: values,
  } as const);
}

function destination(name: string): DestinationSettings | undefined {
  return rig.settings.current().billing.destinations.find((each) => each.name === name);
}

function signingKeys(name: string): readonly string[] | undefined {
  const found = destination(name);
  if (found?.type !== 'webhook') return undefined;
  const { secrets } = found.options as WebhookSettings;
  return secrets.map((key) => key.reveal());
}

async function eventReasons(name: string): Promise<readonly string[]> {
  const { items } = (await cluster.call(
    'GET',
    '/apis/events.k8s.io/v1/namespaces/default/events',
  )) as { items: readonly { reason: string; regarding: { name: string } }[] };
  return items.filter(({ regarding }) => regarding.name === name).map(({ reason }) => reason);
}

const webhook = (key: string, url = 'https://billing.example.com/') => ({
  type: 'webhook',
  webhook: { url, secretRefs: [{ name: 'billing', key }] },
});

describe('a BillingDestination', () => {
  test('takes effect without a restart, and its status follows the engine', async () => {
    await secret('billing', { current: `${CANARY}\n` });
    await apply('billingdestinations', 'main', webhook('current'));
    await expect.poll(() => signingKeys('main'), PATIENCE).toEqual([CANARY]);
    await expect
      .poll(() => ready('billingdestinations', 'main'), PATIENCE)
      .toBe('Unknown Starting');

    const suspended = (): boolean => destination('main')?.suspend === true;
    rig.engine.delivery = {
      list: () => [progressOf('main', { deadLetters: 2, suspended: suspended() })],
    };
    await expect.poll(() => ready('billingdestinations', 'main'), PATIENCE).toBe('True Delivering');
    const object = await get('billingdestinations', 'main');
    expect(object?.metadata.finalizers).toEqual(['meterfeed.io/cursor']);
    expect(object?.status).toMatchObject({
      observedGeneration: object?.metadata.generation,
      cursor: { sequence: 12 },
      lag: { events: 3, seconds: 10 },
      deadLetters: 2,
    });
    expect(await cluster.kubectl(['get', 'bdest', 'main', '--no-headers'])).toMatch(
      /^main +webhook +10 +\S+ +DeadLetters: events refused for good$/m,
    );
    await apply('billingdestinations', 'main', { ...webhook('current'), suspend: true });
    await expect.poll(() => ready('billingdestinations', 'main'), PATIENCE).toBe('False Suspended');
    expect(destination('main')?.suspend).toBe(true);
  });

  test('signs with a rotated key without a restart', async () => {
    await secret('billing', { current: 'old' });
    await apply('billingdestinations', 'main', webhook('current'));
    await expect.poll(() => signingKeys('main'), PATIENCE).toEqual(['old']);
    await secret('billing', { current: 'new' });
    await expect.poll(() => signingKeys('main'), PATIENCE).toEqual(['new']);
  });

  test('goes on sending though it is to be suspended, since its new spec names no Secret that there is', async () => {
    await secret('billing', { current: 'k1' });
    await apply('billingdestinations', 'main', webhook('current'));
    await expect.poll(() => destination('main')?.suspend, PATIENCE).toBe(false);
    await apply('billingdestinations', 'main', { ...webhook('typo'), suspend: true });
    await expect.poll(() => destination('main')?.suspend, PATIENCE).toBe(true);
    expect(signingKeys('main')).toEqual(['k1']);
    await apply('billingdestinations', 'main', webhook('typo'));
    await expect.poll(() => destination('main')?.suspend, PATIENCE).toBe(false);
  });

  test('goes on sending by the settings of the environment, though the resource of its name suspends it', async () => {
    await rig.stop();
    rig = await start({
      ADAPTERS: 'webhook',
      WEBHOOK_URL: 'https://env.example.com/',
      WEBHOOK_SECRET: 'k',
    });
    await apply('billingdestinations', 'webhook', { ...webhook('gone'), suspend: true });
    await expect.poll(() => destination('webhook')?.suspend, PATIENCE).toBe(true);
    expect(signingKeys('webhook')).toEqual(['k']);
    await expect
      .poll(() => condition('billingdestinations', 'webhook', 'Stalled'), PATIENCE)
      .toBe('True SecretNotFound');
    const object = await get('billingdestinations', 'webhook');
    expect(object?.status?.conditions?.at(-1)?.message).toContain('stay in force');
    await remove('billingdestinations', 'webhook');
    await expect.poll(() => destination('webhook')?.suspend, PATIENCE).toBe(false);
  });

  test('keeps its last good settings when a new spec is broken, says why, and recovers', async () => {
    await secret('billing', { current: 'k1' });
    await apply('billingdestinations', 'main', webhook('current'));
    await expect.poll(() => signingKeys('main'), PATIENCE).toEqual(['k1']);

    await apply('billingdestinations', 'main', webhook('typo', 'https://other.example.com/'));
    await expect
      .poll(() => condition('billingdestinations', 'main', 'Stalled'), PATIENCE)
      .toBe('True SecretKeyNotFound');
    expect(destination('main')).toMatchObject({ options: { url: 'https://billing.example.com/' } });
    const broken = await get('billingdestinations', 'main');
    const known = rig.destinations().find(({ name }) => name === 'main');
    const shown = broken?.status?.conditions?.find(({ type }) => type === 'Ready');
    expect(known).toStrictEqual({
      name: 'main',
      type: 'webhook',
      suspend: false,
      startFrom: 'now',
      problem: { reason: 'SecretKeyNotFound', message: shown?.message },
    });
    expect(broken?.status?.observedGeneration).toBe(broken?.metadata.generation);
    expect(broken?.status?.conditions?.at(-1)?.message).toBe(
      'spec.webhook.secretRefs[0]: no such key: "typo"; add the key to Secret "billing" (the last good settings stay in force)',
    );

    await secret('billing', { current: 'k1', typo: 'k2' });
    await expect
      .poll(() => condition('billingdestinations', 'main', 'Stalled'), PATIENCE)
      .toBeUndefined();
    expect(signingKeys('main')).toEqual(['k2']);
    await expect
      .poll(() => eventReasons('main'), PATIENCE)
      .toEqual(expect.arrayContaining(['SecretKeyNotFound', 'Configured']));
  });

  test('is not seen by the ledger before its Secret is there, though its cursor is to begin with its declaration', async () => {
    const places: unknown[] = [];
    rig.reservation = () => {
      places.push(rig.destinations().map(({ name, startFrom }) => [name, startFrom]));
      return { kind: 'written' };
    };
    await apply('billingdestinations', 'late', { ...webhook('k'), startFrom: 'earliest' });
    await expect.poll(() => places[0], PATIENCE).toEqual([['late', 'earliest']]);
    await secret('billing', { k: 'k1' });
    await expect.poll(() => signingKeys('late'), PATIENCE).toEqual(['k1']);
    rig.retirement = { kind: 'failed', reason: 'no room' };
    await remove('billingdestinations', 'late');
    // While it goes nobody makes a cursor for it.
    await expect.poll(() => rig.destinations()[0], PATIENCE).not.toHaveProperty('startFrom');
  });

  test('waits for a Secret that comes later', async () => {
    await apply('billingdestinations', 'early', webhook('current'));
    await expect
      .poll(() => ready('billingdestinations', 'early'), PATIENCE)
      .toBe('False SecretNotFound');
    expect(destination('early')).toBeUndefined();
    await secret('billing', { current: 'k1' });
    await expect.poll(() => signingKeys('early'), PATIENCE).toEqual(['k1']);
  });

  test('never reads a Secret of another namespace', async () => {
    const own = namespace;
    namespace = await cluster.createNamespace('elsewhere');
    await secret('billing', { current: 'stolen' });
    namespace = own;
    await apply('billingdestinations', 'main', webhook('current'));
    await expect
      .poll(() => ready('billingdestinations', 'main'), PATIENCE)
      .toBe('False SecretNotFound');
  });

  test('sends what configures the operator itself to an address of its own', async () => {
    const own = {
      env: ['ledger-url'],
      envFrom: ['meterfeed'],
      volume: ['meterfeed-tokens', 'meterfeed-prometheus'],
      pull: ['registry'],
    };
    await cluster.call('POST', `/api/v1/namespaces/${namespace}/pods`, {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: 'meterfeed-0' },
      spec: {
        imagePullSecrets: own.pull.map((name) => ({ name })),
        containers: [
          {
            name: 'operator',
            image: 'meterfeed',
            env: own.env.map((name) => ({
              name: 'LEDGER_URL',
              valueFrom: { secretKeyRef: { name, key: 'url' } },
            })),
            envFrom: own.envFrom.map((name) => ({ secretRef: { name, optional: true } })),
          },
        ],
        volumes: [
          { name: 'tokens', secret: { secretName: own.volume[0] } },
          { name: 'metrics', projected: { sources: [{ secret: { name: own.volume[1] } }] } },
        ],
      },
    });
    const account = 'token-of-the-operator';
    await put(`/api/v1/namespaces/${namespace}/serviceaccounts`, {
      apiVersion: 'v1',
      kind: 'ServiceAccount',
      metadata: { name: 'meterfeed', namespace },
    });
    await put(`/api/v1/namespaces/${namespace}/secrets`, {
      apiVersion: 'v1',
      kind: 'Secret',
      type: 'kubernetes.io/service-account-token',
      metadata: {
        name: account,
        namespace,
        annotations: { 'kubernetes.io/service-account.name': 'meterfeed' },
      },
      stringData: { token: CANARY },
    });
    await secret('billing', { token: 'k1' });
    const refused = [...Object.values(own).flat(), account];
    for (const name of Object.values(own).flat()) await secret(name, { token: CANARY });
    for (const [index, name] of refused.entries()) {
      const ref = { name, key: 'token' };
      const theft = {
        type: 'webhook',
        webhook: {
          url: 'https://thief.example.com/',
          secretRefs: [{ name: 'billing', key: 'token' }],
          headers: [{ name: 'X-Loot', valueSecretRef: ref }],
        },
      };
      await apply('billingdestinations', `theft-${index}`, theft);
      await expect
        .poll(() => condition('billingdestinations', `theft-${index}`, 'Stalled'), PATIENCE)
        .toBe('True SecretRefused');
      expect(destination(`theft-${index}`)).toBeUndefined();
    }
    const object = await get('billingdestinations', 'theft-0');
    expect(object?.status?.conditions?.at(-1)?.message).toBe(
      'spec.webhook.headers[0].valueSecretRef: a Secret of the operator’s own: "ledger-url"; put the credential into a separate Secret (nothing is in force)',
    );
    await apply('meteringpolicies', 'default', {
      prometheus: {
        url: 'https://thief.example.com/',
        bearerTokenSecretRef: { name: 'meterfeed', key: 'token' },
      },
    });
    await expect
      .poll(() => condition('meteringpolicies', 'default', 'Stalled'), PATIENCE)
      .toBe('True SecretRefused');
    await apply('billingdestinations', 'main', webhook('token'));
    await expect.poll(() => signingKeys('main'), PATIENCE).toEqual(['k1']);
  });

  test('retires its cursor when it is deleted, and says so', async () => {
    await apply('billingdestinations', 'leaving', { type: 'noop' });
    await expect.poll(() => destination('leaving'), PATIENCE).toBeDefined();
    await remove('billingdestinations', 'leaving');
    await expect.poll(() => get('billingdestinations', 'leaving'), PATIENCE).toBeUndefined();
    expect(destination('leaving')).toBeUndefined();
    expect(rig.retired).toEqual(['leaving']);
    await expect.poll(() => eventReasons('leaving'), PATIENCE).toContain('Removed');
  });

  test('stays until its cursor is retired, and names the way out meanwhile', async () => {
    await apply('billingdestinations', 'stuck', { type: 'noop' });
    await expect.poll(() => destination('stuck'), PATIENCE).toBeDefined();
    rig.retirement = { kind: 'failed', reason: 'the volume is full' };
    await remove('billingdestinations', 'stuck');
    await expect
      .poll(() => ready('billingdestinations', 'stuck'), PATIENCE)
      .toBe('False RemovalFailing');
    const object = await get('billingdestinations', 'stuck');
    expect(object?.status?.conditions?.at(0)?.message).toContain('meterfeed.io/cursor');
    expect(rig.retired).toEqual([]);
    rig.retirement = { kind: 'retired' };
    await expect.poll(() => get('billingdestinations', 'stuck'), PATIENCE).toBeUndefined();
    expect(rig.retired).toEqual(['stuck']);
  });

  test('gives the name back to the environment, cursor and all', async () => {
    await rig.stop();
    rig = await start({ ADAPTERS: 'noop' });
    await apply('billingdestinations', 'noop', { type: 'noop', suspend: true });
    await expect.poll(() => destination('noop')?.suspend, PATIENCE).toBe(true);
    await remove('billingdestinations', 'noop');
    await expect.poll(() => get('billingdestinations', 'noop'), PATIENCE).toBeUndefined();
    expect(destination('noop')).toMatchObject({ type: 'noop', suspend: false });
    expect(rig.retired).toEqual([]);
  });

  test('keeps credentials out of status, events and logs', async () => {
    await secret('billing', { current: CANARY, spaced: `${CANARY} ${CANARY}` });
    await apply('billingdestinations', 'main', webhook('current'));
    await expect.poll(() => signingKeys('main'), PATIENCE).toEqual([CANARY]);
    await apply('billingdestinations', 'main', webhook('spaced'));
    await expect
      .poll(() => condition('billingdestinations', 'main', 'Stalled'), PATIENCE)
      .toBe('True InvalidSecret');
    await expect.poll(() => eventReasons('main'), PATIENCE).toContain('InvalidSecret');
    const events = await cluster.kubectl(['get', 'events', '--output', 'json']);
    const object = await cluster.kubectl(['get', 'bdest', 'main', '--output', 'json']);
    expect([events, object, ...rig.logger.lines].join('\n')).not.toContain(CANARY);
  });
});

describe('statuses', () => {
  test('are not written again while nothing changes', async () => {
    rig.engine.delivery = { list: () => [progressOf('still')] };
    await apply('billingdestinations', 'still', { type: 'noop' });
    await expect
      .poll(() => ready('billingdestinations', 'still'), PATIENCE)
      .toBe('True Delivering');
    const before = await get('billingdestinations', 'still');
    // Another object's status passes through the same publisher after many report rounds.
    for (const name of ['other-1', 'other-2', 'other-3']) {
      await apply('billingdestinations', name, { type: 'noop' });
      await expect.poll(() => ready('billingdestinations', name), PATIENCE).toBeDefined();
    }
    const after = await get('billingdestinations', 'still');
    expect(after?.metadata.resourceVersion).toBe(before?.metadata.resourceVersion);
  });

  test('keep the time of a transition over a restart', async () => {
    rig.engine.delivery = { list: () => [progressOf('main')] };
    await apply('billingdestinations', 'main', { type: 'noop' });
    await expect.poll(() => ready('billingdestinations', 'main'), PATIENCE).toBe('True Delivering');
    const backdated = '2026-01-01T00:00:00Z';
    const object = await get('billingdestinations', 'main');
    await rig.stop();
    const conditions = object?.status?.conditions?.map((each) => ({
      ...each,
      lastTransitionTime: backdated,
    }));
    await cluster.call('PUT', `${PATH}/billingdestinations/main/status`, {
      ...object,
      status: { ...object?.status, conditions },
    });
    rig = await start();
    rig.engine.delivery = { list: () => [progressOf('main', { delivered: 99 })] };
    await expect
      .poll(async () => (await get('billingdestinations', 'main'))?.status?.['delivered'], PATIENCE)
      .toBe(99);
    const after = await get('billingdestinations', 'main');
    const times = after?.status?.conditions?.map((each) => each.lastTransitionTime);
    expect(times).toContain(backdated);
  });
});

describe('a TenantOverride', () => {
  test('reaches discovery, shows what it matches, and is given back', async () => {
    await apply('tenantoverrides', 'acme', {
      match: { namespace: 'acme', name: 'prod' },
      tenant: 'acme-corp',
    });
    await expect
      .poll(() => rig.settings.current().overrides.map(({ tenant }) => tenant), PATIENCE)
      .toEqual(['acme-corp']);
    rig.engine.tenants = {
      ...tenantsOf(clusterOf('acme', 'prod')),
      overrides: () => [{ name: 'acme', applied: ['tenant-acme-prod'], conflicts: [] }],
    };
    await expect.poll(() => ready('tenantoverrides', 'acme'), PATIENCE).toBe('True InForce');
    expect(await cluster.kubectl(['get', 'tover', 'acme', '--no-headers'])).toMatch(
      /^acme +acme-corp +1 +\S+ +OK$/m,
    );
    await remove('tenantoverrides', 'acme');
    await expect.poll(() => rig.settings.current().overrides, PATIENCE).toEqual([]);
  });
});

describe('the MeteringPolicy', () => {
  test('is there from the start, and is the front page', async () => {
    rig.engine.tenants = tenantsOf(clusterOf('acme', 'prod'), clusterOf('acme', 'dev'));
    rig.engine.windows = windowsOf({ lastWindowEnd: () => Date.now() });
    rig.engine.delivery = { list: () => [progressOf('main')] };
    await expect.poll(() => ready('meteringpolicies', 'default'), PATIENCE).toBe('True Metering');
    await expect
      .poll(async () => (await get('meteringpolicies', 'default'))?.status, PATIENCE)
      .toMatchObject({
        windowSeconds: 60,
        tenants: 2,
        tenantClusters: 2,
        failedTenantAPIs: { total: 0, items: [] },
        gaps: { total: 0, items: [] },
        destinations: [{ name: 'main', cursor: 12, lagSeconds: 10 }],
        ledger: { id: 'a-ledger', sequence: 42, bytes: 4_096, segments: 1, chain: 'c0ffee' },
      });
    expect(await cluster.kubectl(['get', 'mpol', '--no-headers'])).toMatch(
      /^default +2 +2 +0 +\d+s +\S+ +OK$/m,
    );
  });

  test('counts GPUs as it says, from its change on, until it says nothing', async () => {
    await rig.stop();
    rig = await start({ 'spec.gpuQuantity': 'equivalents' });
    const quantity = () => rig.settings.current().metering.gpuQuantity;
    expect(quantity()).toBe('equivalents');
    await apply('meteringpolicies', 'default', { gpuQuantity: 'devices' });
    await expect.poll(quantity, PATIENCE).toBe('devices');
    await apply('meteringpolicies', 'default', { gpuQuantity: 'equivalents' });
    await expect.poll(quantity, PATIENCE).toBe('equivalents');
    await apply('meteringpolicies', 'default', { gpuQuantity: 'devices' });
    await expect.poll(quantity, PATIENCE).toBe('devices');
    const wrong = JSON.stringify({ spec: { gpuQuantity: 'slices' } });
    await expect(
      cluster.kubectl(['patch', 'mpol', 'default', '--type=merge', '-p', wrong]),
    ).rejects.toThrow('supported values: "equivalents", "devices"');
    expect(quantity()).toBe('devices');
    await apply('meteringpolicies', 'default', { zone: 'zone-a' });
    await expect.poll(quantity, PATIENCE).toBe('equivalents');
  });

  test('changes how is metered, and gives it back', async () => {
    await rig.stop();
    rig = await start({ COLLECTION_INTERVAL: '30s', 'spec.settlingDelay': '15s' });
    const windowMs = () => rig.settings.current().metering.windowMs;
    await apply('meteringpolicies', 'default', { collectionInterval: '5m', zone: 'zone-a' });
    await expect.poll(windowMs, PATIENCE).toBe(300_000);
    expect(rig.settings.current().identity.zone).toBe('zone-a');

    // Only with the environment's delay is it wrong, which the API server cannot know.
    await apply('meteringpolicies', 'default', { collectionInterval: '10s' });
    await expect
      .poll(() => condition('meteringpolicies', 'default', 'Stalled'), PATIENCE)
      .toBe('True InvalidSpec');
    expect(windowMs()).toBe(300_000);

    await remove('meteringpolicies', 'default');
    await expect.poll(windowMs, PATIENCE).toBe(30_000);
    expect(rig.settings.current().identity.zone).toBeUndefined();
  });
});

describe('a PriceBook', () => {
  const priced = (rates: readonly object[]): object => ({
    currency: 'EUR',
    prices: [{ name: 'gpu', metric: 'tenant_gpu_hours', rates }],
  });
  const known = { from: '2026-01-01', amount: '2' };
  const begins = () =>
    rig.settings
      .current()
      .pricing.books.flatMap(({ prices }) =>
        prices.flatMap(({ rates }) => rates.map(({ from }) => from)),
      );

  test('takes effect without a restart, and shows from when on it may be changed', async () => {
    await apply('pricebooks', 'gold', priced([known]));
    await expect.poll(begins, PATIENCE).toEqual(['2026-01-01']);
    await expect.poll(() => ready('pricebooks', 'gold'), PATIENCE).toBe('True InForce');
    const tomorrow = /^20\d\d-\d\d-\d\d$/;
    await expect
      .poll(async () => (await get('pricebooks', 'gold'))?.status, PATIENCE)
      .toMatchObject({ prices: 1, fixedBefore: expect.stringMatching(tomorrow) });
    expect(await cluster.kubectl(['get', 'pbook', 'gold', '--no-headers'])).toMatch(
      /^gold +EUR +1 +20\S+ +\S+ +OK$/m,
    );
    const cheaper = JSON.stringify({ spec: priced([{ ...known, amount: '1' }]) });
    await expect(
      cluster.kubectl(['patch', 'pbook', 'gold', '--type=merge', '-p', cheaper]),
    ).rejects.toThrow('status.fixedBefore cannot be changed');
    await apply('pricebooks', 'gold', priced([known, { from: '2098-01-01', amount: '3' }]));
    await expect.poll(begins, PATIENCE).toEqual(['2026-01-01', '2098-01-01']);
  });

  test('is known to have been read before anything is shown as without a price', async () => {
    await apply('pricebooks', 'gold', priced([known]));
    await rig.stop();
    rig = await start();
    await expect.poll(() => rig.pricesKnown(), PATIENCE).toBe(true);
    expect(begins()).toEqual(['2026-01-01']);
  });

  test('keeps its last good prices when a new spec is broken, and is gone when it is deleted', async () => {
    await apply('pricebooks', 'gold', priced([known]));
    await expect.poll(begins, PATIENCE).toEqual(['2026-01-01']);
    // A day that only a calendar knows not to exist.
    await apply('pricebooks', 'gold', priced([known, { from: '2098-02-30', amount: '3' }]));
    await expect
      .poll(() => condition('pricebooks', 'gold', 'Stalled'), PATIENCE)
      .toBe('True InvalidSpec');
    expect(begins()).toEqual(['2026-01-01']);
    await remove('pricebooks', 'gold');
    await expect.poll(begins, PATIENCE).toEqual([]);
  });
});
