import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));

interface Specified {
  readonly condition: string;
  /** As people and alerts look for it. */
  readonly text: string;
  /** The test that brings the condition about and expects the text. */
  readonly provenBy: string;
}

/** Spec 7: what an operator reads under each condition, and where it is proven that they do. */
const SPECIFIED: readonly Specified[] = [
  {
    condition: 'no tenant clusters found, in every cycle',
    text: '[discovery] found 0 ',
    provenBy: 'operator/discovery/discovery.test.ts',
  },
  {
    condition: 'platform API absent',
    text: '[discovery] platform API is absent; falling back to workload scanning',
    provenBy: 'operator/discovery/discovery.apiserver.test.ts',
  },
  {
    condition: 'metrics API unavailable',
    text: '[metrics] warning: cannot get pod metrics for ',
    provenBy: 'operator/metering/windows/failures.test.ts',
  },
  {
    condition: 'destination unreachable',
    text: 'HTTP POST /api/v1/events/batch: connection refused',
    provenBy: 'operator/destinations/lago/send.test.ts',
  },
  {
    condition: 'destination unreachable at its bootstrap, which warns and goes on',
    text: '[bootstrap] warning: fake: HTTP GET /api/v1/billable_metrics: connection refused',
    provenBy: 'operator/delivery/feeder/feeder.test.ts',
  },
  {
    condition: 'destination answers 401',
    text: '[bootstrap] warning: billing_c: lago-style API error 401',
    provenBy: 'operator/delivery/lago.test.ts',
  },
  {
    condition: 'subscription already exists',
    text: 'subscription sub-tenant-vcluster-a-a already exists, reused',
    provenBy: 'operator/destinations/lago/provision.test.ts',
  },
  {
    condition: 'missing kubeconfig secret',
    text: 'Secret "tenant-a/svc-kubeconfig": missing',
    provenBy: 'operator/tenant-api/access.test.ts',
  },
  {
    condition: 'failed tenant APIs in the status',
    text: 'failed_tenant_apis',
    provenBy: 'operator/http/routes.test.ts',
  },
  {
    condition: 'ingest with no token configured',
    text: 'ingest is disabled: set INGEST_TOKEN (or API_TOKEN) to enable it',
    provenBy: 'operator/http/access.test.ts',
  },
  {
    condition: 'own-node mode without a licence',
    text: 'an unregistered one cannot have them',
    provenBy: 'docs/reference/troubleshooting.md',
  },
  {
    condition: 'platform older than its tenant clusters',
    text: 'upgrade the platform to 4.11.3 or later first',
    provenBy: 'docs/reference/troubleshooting.md',
  },
];

test.each(SPECIFIED)('nobody holds the text that is specified for: $condition', (specified) => {
  expect(readFileSync(ROOT + specified.provenBy, 'utf8')).toContain(specified.text);
});

test('a log line has no prefix, and no filter finds it', () => {
  const sources = readdirSync(`${ROOT}operator`, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts') && !/\.test\.ts$|testing\//.test(file))
    .map((file) => [file, readFileSync(`${ROOT}operator/${file}`, 'utf8')] as const);
  const literals = sources.flatMap(([file, source]) =>
    [...source.matchAll(/logger\.(?:debug|info|warn|error)\(\s*(['"`].)/g)].map(
      ([, start]) => [file, start] as const,
    ),
  );
  expect(literals.length).toBeGreaterThan(40);
  // `$` begins with a variable, which holds the prefix.
  expect(literals.filter(([, start]) => !/[[$]$/.test(start ?? ''))).toStrictEqual([]);
});
