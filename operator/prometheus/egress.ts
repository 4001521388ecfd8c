import type { PrometheusSettings } from '../config/settings.ts';
import { decimalFromNanos, nanosFromDecimal, scaleToDecimal } from '../model/decimal.ts';
import { builtInQueries } from './built-in-queries.ts';
import type { Measure } from './measure.ts';
import { planQuery } from './plan-query.ts';
import { checkRows, labelKey } from './rows.ts';

const BYTES_PER_GIB = 2n ** 30n;

/** Sums are taken of bytes to the ninth digit and then divided, so that parts are rounded together. */
const WHOLE: readonly [bigint, bigint] = [1n, 1n];

/** `tenant_network_egress_gb`: GiB that left the pods of a tenant cluster, the sum of all rows. */
export function createEgressMeasure(preset: PrometheusSettings['preset']): Measure {
  return {
    metric: 'tenant_network_egress_gb',
    unit: 'gib',
    plan: (subject, window) =>
      planQuery({
        subject,
        window,
        preset,
        replacement: subject.cluster.metering.egressQuery,
        replacedBy: 'EGRESS_QUERY or spec.metering.egressQuery of a TenantOverride',
        builtIn: (about) =>
          about.onHost || preset !== 'default' ? builtInQueries(preset, about).egress : undefined,
      }),
    read: ({ rows }) => {
      const { good, refused } = checkRows(rows, labelKey, WHOLE);
      const bytes = good.reduce((sum, { quantity }) => sum + nanosFromDecimal(quantity), 0n);
      const quantity = scaleToDecimal(decimalFromNanos(bytes), 1n, BYTES_PER_GIB);
      return { charges: quantity === undefined ? [] : [{ quantity }], refused };
    },
  };
}
