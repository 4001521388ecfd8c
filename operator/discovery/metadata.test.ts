import { describe, expect, test } from 'vitest';
import { discoverHost } from './testing/host.ts';
import { namespaceObject, workload } from './testing/objects.ts';

const workloads = [workload('tenant-a', 'a'), workload('tenant-b', 'b')];

function withNamespace(
  labels: Readonly<Record<string, string>>,
  annotations: Readonly<Record<string, string>> = {},
) {
  const namespaces = [namespaceObject('tenant-a', { labels, annotations })];
  const { clusters, problems } = discoverHost({ workloads, namespaces });
  return { a: clusters[0], b: clusters[1], problems };
}

test('a label beats the annotation, which can hold what a label cannot', () => {
  const { a } = withNamespace(
    { 'meterfeed.io/tenant': 'label' },
    { 'meterfeed.io/tenant': 'Acme Ltd / Köln' },
  );
  expect(a?.tenant).toBe('Acme Ltd / Köln');
});

describe('one bad value stops billing for everybody', () => {
  test.each([
    ['tenant', 'x'.repeat(129), 'too long'],
    ['tenant', 'a\u0007b', 'contains control characters'],
    ['currency', 'DOUBLOON', 'not an ISO 4217 currency'],
    ['stripe-customer-id', 'bogus', 'not a Stripe customer id'],
    ['metronome-customer-id', 'bogus', 'not a Metronome customer id'],
    ['lago-customer-id', 'x'.repeat(256), 'too long'],
    ['lago-subscription-id', 'x'.repeat(256), 'too long'],
    ['email', 'nobody', 'not an e-mail address'],
    ['exclude', 'perhaps', 'not a boolean'],
    ['plan', 'y'.repeat(129), 'too long'],
  ])('%s: %j', (key, value, what) => {
    const { a, b, problems } = withNamespace({}, { [`meterfeed.io/${key}`]: value });
    expect(a).toMatchObject({ tenant: 'tenant-tenant-a-a', excluded: false });
    expect(b).toMatchObject({ tenant: 'tenant-tenant-b-b' });
    expect(JSON.stringify(a)).not.toContain(JSON.stringify(value).slice(1, -1));
    expect(problems).toStrictEqual([expect.stringContaining(`meterfeed.io/${key}: ${what}: `)]);
    expect(problems[0]).toMatch(/^tenant-tenant-a-a: Namespace tenant-a: annotation /);
  });

  test('a bad annotation gives way to the good label under it', () => {
    const { a, problems } = withNamespace(
      { 'meterfeed.io/tenant': 'acme' },
      { 'meterfeed.io/tenant': 'x'.repeat(129) },
    );
    expect(a?.tenant).toBe('acme');
    expect(problems.length).toBe(1);
  });

  test('an empty or blank value is none', () => {
    const { a, problems } = withNamespace(
      { 'meterfeed.io/tenant': '' },
      { 'meterfeed.io/plan': '  ' },
    );
    expect(a?.tenant).toBe('tenant-tenant-a-a');
    expect(a).not.toMatchObject({ plan: expect.anything() });
    expect(problems).toStrictEqual([]);
  });
});

test('exclude is forgotten where it is not the word true', () => {
  expect(withNamespace({ 'meterfeed.io/exclude': 'yes' }).a?.excluded).toBe(true);
});

test('LABEL_PREFIX: a fleet that was labelled for an earlier release loses its labels', () => {
  const namespaces = [
    namespaceObject('tenant-a', {
      labels: { 'vbilling.vcluster.com/tenant': 'acme', 'meterfeed.io/tenant': 'other' },
      annotations: { 'vbilling.vcluster.com/plan': 'gold' },
    }),
  ];
  const environment = { LABEL_PREFIX: 'vbilling.vcluster.com' };
  const [a] = discoverHost({ workloads, namespaces, environment }).clusters;
  expect(a).toMatchObject({ tenant: 'acme', plan: 'gold' });
});
