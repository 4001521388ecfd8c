import type { TenantCluster } from '../../discovery/tenant-cluster.ts';
import type { CollectorMetric } from '../../model/catalog.ts';
import type { ObjectLabels } from '../timelines/object-labels.ts';
import { keyOf } from '../timelines/shared-values.ts';
import type { Timeline } from '../timelines/timeline.ts';
import { chargeIdentity, namespaceSplit, type Split } from './charge-identity.ts';
import { chargeOf, type Meter, type MeterInput, placeDimensions } from './meter.ts';
import { type TimelineView, visitWindowSpans } from './window-spans.ts';
import { addTo, type Charge, count, type Evidence } from './tally.ts';

const ONE = 1_000_000_000n;

/**
 * Charges bound volume claims by storage class, mounted or not
 * (docs/explanation/metering.md#volumes-and-load-balancers).
 */
export const meterStorage: Meter = (input) =>
  meterResources(input, input.observation.volumes, {
    metric: 'tenant_storage_gb_hours',
    kind: 'PersistentVolumeClaim',
    counter: 'volumes',
    sku: ({ storageClass }) => storageClass,
    rate: ({ size }) => size,
  });

/** Charges a Service of type LoadBalancer, as one, while it has an ingress address. */
export const meterLoadBalancers: Meter = (input) =>
  meterResources(input, input.observation.loadBalancers, {
    metric: 'tenant_lb_hours',
    kind: 'Service',
    counter: 'load_balancers',
    sku: () => undefined,
    rate: () => ONE,
  });

/** How objects of one kind are charged that exist rather than run. */
interface ResourceRule<S> {
  readonly metric: CollectorMetric;
  readonly kind: Evidence['kind'];
  /** The event property that counts the objects. */
  readonly counter: string;
  sku(state: S): string | undefined;
  /** Nano-units for each object. */
  rate(state: S): bigint;
}

function* meterResources<S extends { readonly labels: ObjectLabels }>(
  input: MeterInput,
  view: TimelineView<S>,
  rule: ResourceRule<S>,
): Generator<void, void> {
  const counted = new Set<Timeline<S>>();
  const chargeFor = createChargeCache(input, rule.metric);
  const { start } = input.window;
  yield* visitWindowSpans(input, view, (span) => {
    const { cluster, timeline, state, from, to, carried, weight, mapped, uncertain } = span;
    const charge = chargeFor(cluster, rule.sku(state), namespaceSplit(cluster, state.labels));
    const bounds = { from: from - start, to: to - start };
    const evidence = { kind: rule.kind, object: timeline, state, mapped, ...bounds, carried };
    addTo(charge, { carried, weight, ms: to - from, uncertain }, rule.rate(state), evidence);
    if (!carried && !counted.has(timeline)) count(charge, rule.counter);
    counted.add(timeline);
  });
}

/** Finds an object's charge by an identity that objects billed alike share. */
function createChargeCache(input: MeterInput, metric: CollectorMetric) {
  const caches = new Map<TenantCluster, Map<string, Charge>>();
  const dimensions = placeDimensions(input);
  return (cluster: TenantCluster, sku: string | undefined, split: Split): Charge => {
    const cache = caches.get(cluster) ?? new Map<string, Charge>();
    caches.set(cluster, cache);
    const key = keyOf([sku, split.key]);
    const known = cache.get(key);
    if (known !== undefined) return known;
    const parts = { sku, split, dimensions };
    const charge = chargeOf(input, chargeIdentity(cluster, metric, input.settings, parts));
    cache.set(key, charge);
    return charge;
  };
}
