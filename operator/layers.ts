/** A folder of the operator and its place in the order of imports. */
export interface Layer {
  /**
   * The folder under `operator/`: a package, or a folder of one with stricter rules. `main.ts` is
   * the only file.
   */
  readonly folder: string;
  /** Its purpose in one clause, for docs/explanation/architecture.md. */
  readonly does: string;
  /** Lower folders that it must not import. */
  readonly not?: readonly string[];
  /** Has no input, output, clock or environment; everything it needs is an argument. */
  readonly pure?: true;
}

/**
 * Every package of the operator, from the bottom to the top. A package may import, types included,
 * from any row above its own in this list. Of its own row it may import only itself.
 * `operator/layers.test.ts` checks the imports; `npm run generate:docs` writes the list into
 * docs/explanation/architecture.md.
 */
export const LAYERS: readonly (readonly Layer[])[] = [
  [
    {
      folder: 'model',
      does: 'shared words without an owner: event, window, tenant, secret, metric catalogue, exact decimals, prices',
      pure: true,
    },
  ],
  [
    { folder: 'settings', does: 'every environment variable in one schema; the settings in force' },
    { folder: 'telemetry', does: 'logger, metrics registry, clock' },
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
      folder: 'metering/timelines',
      does: 'what each object was, from when to when',
      not: ['destinations', 'ledger', 'outbound'],
    },
  ],
  [
    {
      folder: 'metering/meters',
      does: 'timelines and a window in, usage events out',
      not: ['kubernetes', 'outbound', 'ledger', 'destinations', 'telemetry'],
      pure: true,
    },
  ],
  [
    {
      folder: 'metering',
      does: 'closes each window once: measures, appends, backfills, records gaps; explains each number',
      not: ['destinations', 'outbound'],
    },
  ],
  [
    {
      folder: 'tenant-api',
      does: 'the APIs of tenant clusters with private nodes: safe access, watches, failures',
      not: ['destinations'],
    },
    {
      folder: 'prometheus',
      does: 'egress, utilisation and configured queries, run at the end of every window',
      not: ['destinations'],
    },
    {
      folder: 'delivery',
      does: 'one feeder for each destination: read, send, classify, park, commit',
      not: ['kubernetes', 'discovery', 'metering'],
    },
  ],
  [
    {
      folder: 'billing',
      does: 'sums over the ledger and what they cost, budgets, billing states and suspension, usage of unknown tenants',
    },
  ],
  [
    {
      folder: 'intake',
      does: 'events of AI gateways: read, mapped, kept once, summed by window into usage events',
      not: ['kubernetes', 'discovery', 'metering', 'delivery', 'destinations'],
    },
  ],
  [
    { folder: 'http', does: 'API, metrics, health, dashboard: read-only views of the above' },
    { folder: 'controllers', does: 'the custom resources: specs in, status out' },
  ],
  [
    {
      folder: 'app',
      does: 'builds everything, for one cluster or a fleet; starts the parts in order, stops them in reverse',
    },
  ],
  [{ folder: 'main.ts', does: 'reads the environment, opens the ledger, runs until a signal' }],
];
