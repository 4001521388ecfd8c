/** A folder of the operator and its place in the order of imports. */
export interface Layer {
  /** The folder under `operator/`; `main.ts` is the one file that stands for itself. */
  readonly folder: string;
  /** What it does, one clause, for docs/architecture.md. */
  readonly does: string;
  /** Folders further down that it must not know all the same. */
  readonly not?: readonly string[];
  /** Has no input, output, clock or environment of its own: what it needs comes in as arguments. */
  readonly pure?: true;
}

/**
 * Every folder of the operator, from the bottom to the top. A folder may import, types included, what
 * stands in a row above its own in this list, and nothing of its own row but itself.
 * `operator/layers.test.ts` holds the imports against it; `npm run generate:docs` writes it into
 * docs/architecture.md.
 */
export const LAYERS: readonly (readonly Layer[])[] = [
  [
    {
      folder: 'model',
      does: 'what everybody names and nobody owns: event, window, tenant, secret, metric catalogue, exact decimals',
      pure: true,
    },
  ],
  [
    { folder: 'config', does: 'every environment variable in one schema; the settings in force' },
    { folder: 'telemetry', does: 'logger, metrics registry, clock' },
    {
      folder: 'pricing',
      does: 'what usage costs by a price book: which price holds, tiers, rounding',
      pure: true,
    },
  ],
  [
    {
      folder: 'kubernetes',
      does: 'pooled connection, watches (reflector), work queue, lease, status writing',
    },
    {
      folder: 'outbound',
      does: 'the only place that makes HTTP requests to the outside',
    },
    {
      folder: 'ledger',
      does: 'the durable, ordered, deduplicated sequence of events and its cursors',
    },
  ],
  [
    {
      folder: 'discovery',
      does: 'which tenant clusters exist, and whom each is billed to',
    },
    {
      folder: 'destinations',
      does: 'one folder for each billing system: its API, its settings, its alerts',
      not: ['kubernetes', 'ledger'],
    },
  ],
  [
    {
      folder: 'observation',
      does: 'timelines: what each object was, from when to when',
      not: ['destinations', 'ledger', 'outbound'],
    },
  ],
  [
    {
      folder: 'tenant-api',
      does: 'the APIs of tenant clusters with nodes of their own: safe access, watches, what fails',
      not: ['destinations'],
    },
    {
      folder: 'metering',
      does: 'timelines and a window in, usage events out',
      not: ['kubernetes', 'outbound', 'ledger', 'destinations', 'telemetry'],
      pure: true,
    },
  ],
  [
    {
      folder: 'explanations',
      does: 'what stands behind each number, as long as the ledger keeps it',
    },
  ],
  [
    {
      folder: 'windows',
      does: 'closes each window once: measures, appends, backfills, records gaps',
      not: ['destinations', 'outbound'],
    },
  ],
  [
    {
      folder: 'prometheus',
      does: 'egress, utilisation and configured queries, asked at the end of every window',
      not: ['destinations'],
    },
    {
      folder: 'ingest',
      does: 'holds what is pushed in for tenants that nobody knows, until somebody decides',
      not: ['destinations', 'outbound'],
    },
    {
      folder: 'delivery',
      does: 'one feeder for each destination: read, send, classify, park, commit',
      not: ['kubernetes', 'discovery', 'observation', 'metering', 'windows'],
    },
    {
      folder: 'enforcement',
      does: 'alerts of billing systems in, billing states and suspension labels out',
      not: ['observation', 'metering', 'windows'],
    },
    {
      folder: 'usage',
      does: 'sums over the ledger and what they cost, for the API and the dashboard',
    },
  ],
  [
    {
      folder: 'budgets',
      does: 'what a tenant has used of its budget, when it will be used up, and what follows',
    },
    {
      folder: 'fleet',
      does: 'many streams as one: what each meter tells, one customer out of several clusters, sums over all',
      not: ['kubernetes'],
    },
  ],
  [
    { folder: 'http', does: 'API, metrics, health, dashboard: read-only views of the above' },
    { folder: 'controllers', does: 'the custom resources: specs in, status out' },
  ],
  [
    {
      folder: 'wiring',
      does: 'builds all of it, starts the parts in order and stops them the other way round',
    },
  ],
  [{ folder: 'main.ts', does: 'reads the environment, opens the ledger, runs until a signal' }],
];
