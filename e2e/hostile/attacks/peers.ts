import type { Random } from '../../faults/random.ts';
import { again, query, drip, hold, type PeerMeans } from './peer-requests.ts';
import { hostileText, NAMES, TIMES } from './values.ts';

/** Something that a peer does until the signal aborts. Never rejects. */
export interface PeerAttack {
  readonly name: string;
  make(random: Random): (means: PeerMeans) => Promise<void>;
}

export const PEER_ATTACKS: readonly PeerAttack[] = [
  {
    name: 'idle connections',
    make: (random) => {
      const count = random.pick([100, 600]);
      const isProbe = random.chance(0.3);
      return (means) => hold(means, count, '', isProbe);
    },
  },
  {
    name: 'requests that are announced and not sent',
    make: (random) => {
      const path = random.pick(['/webhooks/lago', '/webhooks/stripe', '/api/v1/events', '/']);
      const length = random.pick([1, 1_048_576, 10_485_760, 1_073_741_824]);
      const head = `POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${length}\r\n\r\n{`;
      return (means) => hold(means, random.pick([16, 64, 200]), head, false);
    },
  },
  {
    name: 'what is no HTTP',
    make: (random) => {
      const text = random.pick(NO_HTTP);
      const isProbe = random.chance(0.3);
      return (means) => again(means, 20, () => hold(means, 4, text, isProbe, 50));
    },
  },
  {
    name: 'requests without a token',
    make: (random) => (means) =>
      again(means, 2, () =>
        query(means, {
          method: random.pick(['GET', 'POST', 'PUT', 'DELETE', 'OPTIONS', 'HEAD']),
          path: random.pick(PATHS),
          headers: {
            authorization: random.pick(['', 'Bearer x', `Bearer ${hostileHeader(random)}`]),
          },
          body: random.pick(['', '{}', '['.repeat(5_000)]),
        }),
      ),
  },
  {
    name: 'addresses that are mutated',
    make: (random) => (means) =>
      again(means, 5, () =>
        query(means, {
          method: 'GET',
          path: `${random.pick(PATHS)}${random.pick(SUFFIXES)}${encodeURIComponent(hostileHeader(random)).slice(0, 4_000)}`,
          headers: {},
          body: '',
        }),
      ),
  },
  {
    name: 'probes without an end',
    make: (random) => {
      const port = random.pick(['port', 'probePort'] as const);
      return (means) =>
        again(means, 1, () =>
          query(
            { ...means, port: means[port] },
            {
              method: 'GET',
              path: random.pick(['/healthz', '/readyz', '/readyz?verbose', '/metrics']),
              headers: {},
              body: '',
            },
          ),
        );
    },
  },
  {
    name: 'pushed events that are mutated',
    make: (random) => (means) =>
      again(means, 20, () =>
        query(means, {
          method: 'POST',
          path: '/api/v1/events',
          headers: {
            authorization: `Bearer ${means.ingestToken}`,
            'content-type': 'application/json',
            'x-meterfeed-client': random.pick(['gateway', hostileHeader(random).slice(0, 80)]),
          },
          body: pushed(random),
        }),
      ),
  },
  {
    name: 'many pushed events',
    make: (random) => {
      const count = random.pick([1_000, 5_000, 5_001, 60_000]);
      const tenant = random.pick(['stranger', 'tenant-honest-a-honest-a']);
      return (means) =>
        again(means, 300, () => {
          const events = Array.from({ length: count }, (_, index) => pushedEvent(tenant, index));
          return query(means, {
            method: 'POST',
            path: '/api/v1/events',
            headers: {
              authorization: `Bearer ${means.ingestToken}`,
              'content-type': 'application/json',
            },
            body: JSON.stringify({ events }),
          });
        });
    },
  },
  {
    name: 'a body byte by byte',
    make: () => (means) => drip(means),
  },
];

const PATHS: readonly string[] = [
  '/',
  '/healthz',
  '/readyz?verbose',
  '/metrics',
  '/api/v1/status',
  '/api/v1/catalog',
  '/api/v1/events',
  '/api/v1/usage?group_by=tenant',
  '/api/v1/tenants',
  '/api/v1/tenants/tenant-honest-a-honest-a',
  '/api/v1/destinations',
  '/api/v1/destinations/webhook/dead-letters',
  '/api/v1/windows',
  '/api/v1/reconcile',
  '/api/v1/ledger/verify',
  '/api/v1/billing-states',
  '/webhooks/lago',
  '/dashboard/',
  '/../../etc/passwd',
  '/%2e%2e/%2e%2e/etc/passwd',
  '/__proto__',
];

const SUFFIXES: readonly string[] = [
  '/',
  '?tenant=',
  '?from=',
  '?limit=',
  '/%ff',
  '?group_by=',
  '#',
  '?',
];

const NO_HTTP: readonly string[] = [
  'GET / HTTP/9.9\r\n\r\n',
  'GET\r\n\r\n',
  '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03',
  'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
  'POST /webhooks/lago HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFF\r\n',
  'POST /api/v1/events HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n',
  'GET / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n',
  `GET / HTTP/1.1\r\nHost: x\r\nx: ${'y'.repeat(20_000)}\r\n\r\n`,
  `GET /${'a'.repeat(20_000)} HTTP/1.1\r\nHost: x\r\n\r\n`,
  'GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n',
  'CONNECT 169.254.169.254:80 HTTP/1.1\r\nHost: x\r\n\r\n',
  'GET / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n',
  'GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(2_000),
  '\0\0\0\0',
];

/** A good event of the metric that peers may push, in the minute before this one. */
export function pushedEvent(tenant: string, index: number): object {
  const end = Math.floor(Date.now() / 60_000) * 60_000;
  return {
    tenant,
    metric: 'tokens_used',
    quantity: index + 1,
    window_start: new Date(end - 60_000).toISOString(),
    window_end: new Date(end).toISOString(),
    dimensions: { batch: `b${index}` },
  };
}

/** A push that stands in for somebody else's event, or is none. */
function pushed(random: Random): string {
  const event: Record<string, unknown> = { ...pushedEvent('stranger', random.between(0, 9)) };
  const changes: Readonly<Record<string, () => unknown>> = {
    tenant: () => random.pick(['tenant-honest-a-honest-a', hostileText(random)]),
    metric: () => random.pick(['tenant_gpu_hours', 'tokens_used', ...NAMES]),
    quantity: () => random.pick([-1, 1e308, '1', 1e-30, null, '9'.repeat(400)]),
    window_start: () => random.pick(TIMES),
    window_end: () => random.pick(TIMES),
    region: () => random.pick(['hostile-suite', 'eu-west', hostileText(random)]),
    id: () => random.pick([`svc1_${'0'.repeat(32)}`, hostileText(random)]),
    dimensions: () => ({ [hostileText(random)]: hostileText(random), tenant_cluster: 'honest-a' }),
    properties: () => ({ [random.pick(NAMES)]: hostileText(random) }),
    source: () => 'collector',
    resource_id: () => random.pick(['tenant-honest-a-honest-a', hostileText(random)]),
  };
  for (const [key, change] of Object.entries(changes)) {
    if (random.chance(0.3)) event[key] = change();
  }
  return JSON.stringify(random.chance(0.5) ? event : [event, event]);
}

/** A text that a header may hold. */
function hostileHeader(random: Random): string {
  return hostileText(random)
    .replaceAll(/[^ -~]/g, '?')
    .slice(0, 6_000);
}
