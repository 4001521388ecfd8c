import { chargeIdentity } from './charge-identity.ts';
import type { Meter } from './meter.ts';
import { ownDimensions } from './own-nodes.ts';
import { visitPieces } from './pieces.ts';
import { addTo, count } from './tally.ts';

const ONE = 1_000_000_000n;

/** Services of type LoadBalancer while they have an ingress address, each one load balancer (design 7). */
export const meterLoadBalancers: Meter = (input) => {
  const counted = new Set<unknown>();
  const dimensions = ownDimensions(input);
  visitPieces(input, input.observation.loadBalancers, (piece) => {
    const { cluster, timeline, state, from, to, carried, weight } = piece;
    const charge = input.tally.charge(
      chargeIdentity(cluster, 'tenant_lb_hours', input.settings, { dimensions }),
    );
    const { start } = input.window;
    const bounds = { from: from - start, to: to - start };
    const evidence = { kind: 'Service', object: timeline, state, ...bounds, carried } as const;
    addTo(charge, { carried, weight, ms: to - from }, ONE, evidence);
    if (!carried && !counted.has(timeline)) count(charge, 'load_balancers');
    counted.add(timeline);
  });
};
