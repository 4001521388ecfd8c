import type { RawObject } from '../../../operator/kubernetes/source.ts';
import type { Random } from '../../faults/random.ts';
import type { Put } from '../world/honest-estate.ts';
import { kubeconfigSecret } from '../world/objects.ts';
import type { HostAttack } from './host-objects.ts';
import { hostileText, TIMES } from './values.ts';

const API = '/apis/meterfeed.io/v1alpha1';
const PLURALS = ['billingdestinations', 'pricebooks'] as const;

/** The custom resources of a run, which no namespace takes with it. */
export function customResourcesOf(cluster: string): readonly string[] {
  return PLURALS.map((plural) => `${API}/${plural}/${cluster}`);
}

/**
 * Custom resources of meterfeed as somebody writes them who may: no bill of another destination may change, and no
 * credential may leave, whatever they name. What their schemas refuse never gets as far as the operator.
 */
export const CUSTOM_RESOURCE_ATTACKS: readonly HostAttack[] = [
  {
    name: 'destinations that lead anywhere',
    make: (random, cluster) => {
      const [type, spec] = destinationOf(random);
      const object = { type, startFrom: random.pick(['now', 'earliest']), [type]: spec };
      return [KEY, resource('BillingDestination', PLURALS[0], cluster, object)];
    },
  },
  {
    name: 'price books as load',
    make: (random, cluster) => {
      const prices = storable(random.pick([10, 500, 4_000]), (index) => ({
        name: `price-${index}`,
        metric: random.pick(['tenant_cpu_core_hours', 'tenant_gpu_hours', hostileText(random)]),
        match: Object.fromEntries(
          Array.from({ length: 8 }, (_unused, key) => [`dimension_${key}`, hostileText(random)]),
        ),
        rates: Array.from({ length: random.pick([1, 20]) }, () => rateOf(random)),
      }));
      const spec = { currency: random.pick(['EUR', 'JPY', 'XXX', '']), prices };
      return [resource('PriceBook', PLURALS[1], cluster, spec)];
    },
  },
];

/** etcd takes no larger object, so the operator is given none (https://etcd.io/docs/v3.6/dev-guide/limit). */
const ETCD_BYTES = 1_500_000;

/** So many items, or as many as an object of etcd holds. */
function storable(most: number, make: (index: number) => RawObject): readonly RawObject[] {
  const items: RawObject[] = [];
  let bytes = 0;
  while (items.length < most) {
    const item = make(items.length);
    bytes += Buffer.byteLength(JSON.stringify(item));
    if (bytes > ETCD_BYTES) break;
    items.push(item);
  }
  return items;
}

const PLACES: readonly string[] = [
  'http://169.254.169.254/latest/meta-data/',
  'http://[::ffff:169.254.169.254]/',
  'http://2852039166/',
  'http://127.0.0.1:1/',
  'https://kubernetes.default.svc/api',
  'file:///etc/passwd',
  'http://user:password@127.0.0.1:1/',
  'http://127.0.0.1:1/#',
  'javascript:alert(1)',
  '',
];

/** So that some of them get as far as sending something. */
const KEY: Put = {
  api: 'host',
  path: '/api/v1/namespaces/meterfeed-system/secrets/hostile',
  object: kubeconfigSecret('a-key-of-nobody', 'key'),
};

const SECRETS: readonly RawObject[] = [
  { name: 'hostile', key: 'key' },
  { name: 'hostile', key: 'key' },
  { name: 'meterfeed', key: 'API_TOKEN' },
  { name: '../kube-system/admin', key: 'token' },
  { name: 'svc-kubeconfig', key: 'config' },
  { name: 'x', key: '__proto__' },
  { name: 'x'.repeat(300), key: '' },
];

function destinationOf(random: Random): readonly [type: string, spec: RawObject] {
  const url = random.pick(PLACES);
  const secret = random.pick(SECRETS);
  return random.pick([
    [
      'webhook',
      { url, secretRefs: [secret], headers: [{ name: 'X-Secret', valueSecretRef: secret }] },
    ],
    ['lago', { url, apiKeySecretRef: secret, planCode: hostileText(random) }],
    ['stripe', { apiKeySecretRef: secret, url }],
    [
      'kafka',
      {
        brokers: ['169.254.169.254:9092', '127.0.0.1:1', hostileText(random)],
        topic: hostileText(random),
        sasl: { username: hostileText(random), passwordSecretRef: secret },
      },
    ],
  ] as const);
}

function rateOf(random: Random): RawObject {
  const amount = (): string => random.pick(['0.1', '-1', '1e308', '9'.repeat(300), '0', 'NaN']);
  const tiers = Array.from({ length: random.pick([1, 100]) }, (_, at) => ({
    upTo: String(at + 1),
    amount: amount(),
  }));
  const from = random.pick([...TIMES, '2026-01-01T00:00:00Z']);
  return random.pick([
    { from, amount: amount() },
    { from, graduated: tiers },
    { from, volume: tiers, included: amount() },
    { from, withdrawn: true },
  ]);
}

function resource(kind: string, plural: string, name: string, spec: RawObject): Put {
  const metadata = { name, generation: 1 };
  const object = { apiVersion: 'meterfeed.io/v1alpha1', kind, metadata, spec };
  return { api: 'host', path: `${API}/${plural}/${name}`, object };
}
