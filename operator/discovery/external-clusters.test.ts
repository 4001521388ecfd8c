import { expect, test } from 'vitest';
import { parseExternalClusters } from './external-clusters.ts';
import { CUSTOMER_ID_KEYS } from '../destinations/registry.ts';

function problemsOf(text: string): readonly string[] {
  const parsed = parseExternalClusters(text, CUSTOMER_ID_KEYS);
  return parsed.kind === 'invalid' ? parsed.problems : [];
}

test('every field that is specified is read', () => {
  const parsed = parseExternalClusters(
    `
- name: edge-1
  kubeconfig: /etc/meterfeed/tenants/edge-1
  tenant: acme
  displayName: Acme, edge
  project: vision
  metadata:
    email: billing@acme.example
    currency: eur
    plan: edge
    tenant-class: enterprise
    exclude: false
- {name: edge-2, kubeconfig: /etc/meterfeed/tenants/edge-2}
`,
    CUSTOMER_ID_KEYS,
  );
  expect(parsed).toEqual({
    kind: 'clusters',
    clusters: [
      {
        name: 'edge-1',
        kubeconfig: '/etc/meterfeed/tenants/edge-1',
        tenant: 'acme',
        displayName: 'Acme, edge',
        project: 'vision',
        metadata: {
          email: 'billing@acme.example',
          currency: 'EUR',
          plan: 'edge',
          'tenant-class': 'enterprise',
          exclude: false,
        },
      },
      { name: 'edge-2', kubeconfig: '/etc/meterfeed/tenants/edge-2', metadata: {} },
    ],
  });
  expect(parseExternalClusters('[]', CUSTOMER_ID_KEYS)).toEqual({ kind: 'clusters', clusters: [] });
});

test('an administrator fixes one mistake after the other: all are reported at once, with their lines', () => {
  const text = `- name: Edge
  kubeconfig: etc/edge
  tenannt: x
- kubeconfig: /k
  metadata:
    email: nobody
    colour: red
    plan: [a]
- name: twice
  kubeconfig: /k
- name: twice
  kubeconfig: /k
  tenant: {a: b}
- just text
- name: twice
  kubeconfig: /k
`;
  expect(problemsOf(text)).toEqual([
    'line 1: name: not a name: "Edge"; use lower case letters, digits, - and ., at most 63',
    'line 2: kubeconfig: not an absolute path: "etc/edge"; give an absolute path, such as /var/lib/meterfeed',
    'line 3: unknown field: "tenannt"; use name, kubeconfig, tenant, displayName, project, metadata',
    'line 4: name: missing; it is required',
    'line 6: metadata.email: not an e-mail address: "nobody"; give an e-mail address',
    'line 7: metadata.colour: unknown key: "colour"; use email, tenant-class, plan, currency, lago-customer-id, lago-subscription-id, stripe-customer-id, metronome-customer-id, cost-center, exclude',
    'line 8: metadata.plan: not text: ""; give 1 to 128 printable characters',
    'line 13: tenant: not text; give 1 to 128 printable characters',
    'line 14: not an entry; give name, kubeconfig and the other fields',
    'line 15: name: given twice: "twice"; give each a different name',
  ]);
});

test.each([
  ['', 'line 1: not a list; begin each entry with "- name:"'],
  ['name: x', 'line 1: not a list; begin each entry with "- name:"'],
  ['- name: [', 'line 1: not valid YAML: BAD_INDENT'],
  ['- &a {name: x, kubeconfig: /k}\n- *a', 'line 1: an anchor; write values out'],
  ['x'.repeat(300_000), 'too large: 300000 bytes; at most 262144'],
])('a file that is no list is taken for an empty one: %#', (text, expected) => {
  expect(problemsOf(text)[0]).toBe(expected);
});
