import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { useOwnTestCluster } from '../e2e/control-plane/test-cluster.ts';
import {
  type ControllersRig,
  startControllers,
} from '../operator/controllers/testing/controllers-rig.ts';
import {
  clusterOf,
  progressOf,
  tenantsOf,
  windowsOf,
} from '../operator/controllers/testing/facts.ts';
import { installCustomResources } from '../operator/controllers/testing/install.ts';
import { PLURALS, type Schema, schemaOf } from '../operator/controllers/testing/schemas.ts';

/** What a person sees who knows the operator by kubectl alone. */

const cluster = useOwnTestCluster();

const SAMPLES = fileURLToPath(new URL('samples/', import.meta.url));
const PATIENCE = { timeout: 20_000, interval: 100 };
/** Of a terminal. */
const COLUMNS = 80;
const MINUTE = 60_000;

let namespace = '';
let rig: ControllersRig;

beforeAll(async () => {
  await installCustomResources(cluster);
  namespace = await cluster.createNamespace('operator');
  rig = await startControllers({ kubeconfig: cluster.kubeconfig, namespace });
  const acme = clusterOf('acme', 'prod');
  rig.engine.tenants = tenantsOf(acme, clusterOf('acme', 'test'));
  const now = Date.now();
  rig.engine.windows = windowsOf({
    lastWindowEnd: () => Math.floor(now / MINUTE) * MINUTE,
    failedTenantApis: () => [{ tenantCluster: acme.id, reason: 'no such Secret', since: now }],
  });
  // kubectl looks first and creates then: the operator must not do so in between.
  await cluster.kubectl(['wait', '--for=create', '--timeout=20s', 'meteringpolicies/default']);
  await cluster.kubectl(['apply', '--kustomize', SAMPLES]);
});
afterAll(async () => rig?.stop());

async function get(kind: string, ...flags: readonly string[]): Promise<readonly string[]> {
  const text = await cluster.kubectl(['get', kind, ...flags]);
  return text.split('\n').filter((line) => line !== '');
}

/** Sets how a destination is doing, and lets kubectl wait until its status says so. */
async function become(change: Parameters<typeof progressOf>[1], awaited: string): Promise<void> {
  rig.engine.delivery = { list: () => [progressOf('dry-run', change)] };
  await cluster.kubectl(['wait', `--for=${awaited}`, '--timeout=20s', 'bdest/dry-run']);
}

describe('kubectl get', () => {
  // A cause is as long as it is: it stands last, so that it pushes nothing else over the edge.
  test.each(['bdest', 'tover', 'mpol'])(
    '%s is broken over two lines before its STATUS',
    async (kind) => {
      await become({ lastSuccessAt: Date.now() }, 'condition=Ready');
      const [header = '', ...rows] = await get(kind);
      expect(rows.length).toBeGreaterThan(0);
      expect(header.trimEnd()).toMatch(/ STATUS$/);
      expect(header.trimEnd().length).toBeLessThanOrEqual(COLUMNS);
    },
  );

  test.each(['bdest', 'tover', 'mpol'])('%s --output wide does not say why', async (kind) => {
    const [header = '', ...rows] = await get(kind, '--output', 'wide');
    expect(header.trimEnd()).toMatch(/ STATUS$/);
    const column = header.indexOf('STATUS');
    expect(rows.filter((row) => row.slice(column).trim() === '')).toStrictEqual([]);
  });

  test('bdest --output wide sends people elsewhere for the cause', async () => {
    const cause = 'HTTP POST /hook: host not found: "billing.exmaple.com"';
    await become({ consecutiveFailures: 3, lastError: cause }, 'condition=Ready=False');
    const [header = '', ...rows] = await get('bdest', '--output', 'wide');
    const row = rows.find((each) => each.startsWith('dry-run ')) ?? '';
    expect(row.slice(header.indexOf('STATUS'))).toMatch(
      /^DeliveryFailing: HTTP POST \/hook: host not found: "billing/,
    );
  });

  test('meterfeed leaves a kind out', async () => {
    const lines = (await get('meterfeed')).join('\n');
    for (const name of ['dry-run', 'default', 'acme-prod']) expect(lines).toContain(`/${name} `);
  });
});

describe('kubectl explain', () => {
  /** Paths of what has fields. */
  function* objects(schema: Schema, path: string): Generator<string> {
    if (schema.properties === undefined) return;
    yield path;
    for (const [name, property] of Object.entries(schema.properties)) {
      if (name !== 'metadata') yield* objects(property.items ?? property, `${path}.${name}`);
    }
  }

  test.each(PLURALS)('leaves a field of %s unexplained', async (plural) => {
    const paths = [...objects(schemaOf(plural), plural)];
    expect(paths.length).toBeGreaterThan(3);
    for (const path of paths) {
      const text = await cluster.kubectl(['explain', path]);
      expect([path, text.includes('<no description>')]).toStrictEqual([path, false]);
    }
  });
});

test('kubectl describe does not tell what has happened', async () => {
  const reported = (): Promise<string> => cluster.kubectl(['describe', 'bdest/dry-run']);
  await become({}, 'condition=Ready');
  const lastError = 'HTTP POST /api/v1/events/batch: lago-style API error 401';
  await become({ blocked: lastError, lastError }, 'condition=Ready=False');
  expect(await reported()).toContain(`Last Error:           ${lastError}`);
  await become({ deadLetters: 3 }, 'condition=DeadLetters');
  await expect.poll(reported, PATIENCE).toMatch(/Warning +EventsRefused /);
  const text = await reported();
  const [, events = ''] = text.split('\nEvents:\n');
  expect(events).toMatch(/Normal +Configured .* The settings are in force/);
  expect(events).toMatch(/Warning +Blocked .*HTTP POST .*401/);
  expect(events).toMatch(/Normal +Resumed .* after Blocked/);
  expect(text).toMatch(/Reason: +EventsRefused/);
});

test('a spec that cannot be used is not told apart from one in force', async () => {
  await cluster.kubectl(['wait', '--for=condition=Stalled', '--timeout=20s', 'bdest/lago']);
  const reported = (): Promise<string> => cluster.kubectl(['describe', 'bdest/lago']);
  await expect.poll(reported, PATIENCE).toMatch(/Warning +SecretNotFound .*"billing-lago"/);
});

describe('the samples', () => {
  const files = readdirSync(SAMPLES).filter((file) => file !== 'kustomization.yaml');
  const sources = files.map((file) => [file, readFileSync(SAMPLES + file, 'utf8')] as const);

  test('leave a type of destination out', () => {
    const types = schemaOf('billingdestinations').properties?.['spec']?.properties?.['type']?.enum;
    const shown = sources.flatMap(([, text]) =>
      parseAllDocuments(text).map((document) => document.getIn(['spec', 'type'])),
    );
    expect(types?.filter((type) => !shown.includes(type))).toStrictEqual([]);
  });

  test.each(sources)('%s needs a Secret, and does not say how to make it', (_, text) => {
    const references = text.matchAll(/name: (billing-\S+)\n\s+key: (\S+)/g);
    const comment = text
      .split('\n')
      .filter((line) => line.startsWith('#'))
      .join('\n');
    for (const [, name = '', key = ''] of references) {
      expect(comment).toContain(`create secret generic ${name} `);
      expect(comment).toContain(`--from-literal=${key}=`);
    }
  });

  test('come to nothing with the Secrets that they name', async () => {
    const literals = [
      ['billing-lago', 'api-key'],
      ['billing-stripe', 'api-key'],
      ['billing-metronome', 'api-token', 'stripe-api-key'],
      ['billing-webhook', 'signing-key', 'authorization'],
      ['billing-kafka', 'password'],
    ] as const;
    for (const [name, ...keys] of literals) {
      const values = keys.map((key) => `--from-literal=${key}=example-of-a-secret-value`);
      const command = ['create', 'secret', 'generic', name, ...values, '--namespace', namespace];
      await cluster.kubectl(command);
    }
    const reasons = async (): Promise<readonly string[]> => {
      const path = 'jsonpath={.items[*].status.conditions[?(@.type=="Ready")].reason}';
      return (await cluster.kubectl(['get', 'bdest', '--output', path])).split(' ').toSorted();
    };
    await expect
      .poll(reasons, PATIENCE)
      .toStrictEqual(['Delivering', ...Array.from({ length: 5 }, () => 'Suspended')]);
  });
});
