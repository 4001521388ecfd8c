import { collectDefaultMetrics, Gauge, Registry } from 'prom-client';

/** Series of a metric whose label values come from outside. Values beyond this count as `other`. */
const DEFAULT_SERIES = 5000;
const MAX_LABEL_CHARACTERS = 128;

/** Values of a label `client`. */
export const MOST_CLIENTS = 200;

const MISNAMED = [
  'nodejs_active_handles_total',
  'nodejs_active_requests_total',
  'nodejs_active_resources_total',
];

/** A registry with the process's own metrics and `meterfeed_build_info`. Components add theirs. */
export function createRegistry(build: { readonly version: string }): Registry {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  // These are gauges with a counter's suffix. Other metrics have the same numbers by type.
  for (const name of MISNAMED) registry.removeSingleMetric(name);
  const info = new Gauge({
    name: 'meterfeed_build_info',
    help: 'Constant 1, labelled with the version of the operator and of its runtime',
    labelNames: ['version', 'node_version'],
    registers: [registry],
  });
  info.set({ version: build.version, node_version: process.versions.node }, 1);
  return registry;
}

/**
 * Limits the series of a label whose values come from outside (docs/explanation/security.md#d-20).
 * It replaces control characters, cuts long values, and returns `other` for new values once it
 * knows `max` of them.
 */
export function createLabelLimit(max = DEFAULT_SERIES): (value: string) => string {
  const known = new Set<string>();
  return (value) => {
    const clean = value
      .slice(0, MAX_LABEL_CHARACTERS)
      .toWellFormed()
      .replace(/[\p{Cc}\u2028\u2029]/gu, ' ');
    if (known.has(clean)) return clean;
    if (known.size >= max) return 'other';
    known.add(clean);
    return clean;
  };
}
