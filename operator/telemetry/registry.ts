import { collectDefaultMetrics, Gauge, Registry } from 'prom-client';

/** Series per metric that values from outside may open before the rest is counted as `other`. */
const DEFAULT_SERIES = 5000;
const MAX_LABEL_CHARACTERS = 128;

const MISNAMED = [
  'nodejs_active_handles_total',
  'nodejs_active_requests_total',
  'nodejs_active_resources_total',
];

/** A registry with the process's own metrics and `meterfeed_build_info`. Components add theirs to it. */
export function createRegistry(build: { readonly version: string }): Registry {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  // Gauges with the ending of a counter; the same numbers are there by type.
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
 * Bounds the series of a label whose values come from outside: control characters are replaced, long
 * values cut, and once `max` values are known every further one is `other` (docs/explanation/security.md#d-20).
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
