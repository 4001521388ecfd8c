import { createRandom } from '../../faults/random.ts';
import type { Attack, AttackKind, RunPlan } from './attack.ts';
import { BROKER_ATTACKS } from './brokers.ts';
import { CREDIT_ATTACKS } from './credits.ts';
import { FRAMING_ATTACKS } from './framing.ts';
import { HOST_ATTACKS } from './host.ts';
import { KUBECONFIG_ATTACKS } from './kubeconfigs.ts';
import { PEER_ATTACKS } from './peers.ts';
import { SCOPED_TOKEN_ATTACKS } from './scoped-tokens.ts';
import { TENANT_API_ATTACKS } from './tenant-api.ts';
import { TOKEN_ATTACKS } from './tenant-tokens.ts';
import { VENDOR_ATTACKS } from './vendors.ts';
import { WEBHOOK_ATTACKS } from './webhooks.ts';

/** Every generator of attacks, by where it attacks from. */
export const CATALOGUE: Readonly<Record<AttackKind, readonly { readonly name: string }[]>> = {
  'tenant-api': TENANT_API_ATTACKS,
  kubeconfig: KUBECONFIG_ATTACKS,
  host: HOST_ATTACKS,
  peer: [...PEER_ATTACKS, ...FRAMING_ATTACKS, ...SCOPED_TOKEN_ATTACKS],
  webhook: WEBHOOK_ATTACKS,
  vendor: VENDOR_ATTACKS,
  broker: BROKER_ATTACKS,
  token: TOKEN_ATTACKS,
  credit: CREDIT_ATTACKS,
};

const MOST_ATTACKS = 6;
/** How often each is chosen, of a hundred: an own API can do the most, and has the most attacks. */
const WEIGHTS: readonly (readonly [kind: AttackKind, weight: number])[] = [
  ['tenant-api', 36],
  ['kubeconfig', 8],
  ['host', 16],
  ['peer', 12],
  ['webhook', 5],
  ['vendor', 8],
  ['broker', 5],
  ['token', 6],
  ['credit', 4],
];

/** What a run does. Two seeds that are near each other have nothing in common. */
export function planOf(seed: number, run: number): RunPlan {
  const random = createRandom((Math.imul(seed, 0x9e3779b1) ^ Math.imul(run + 1, 0x85ebca6b)) >>> 0);
  const attacks: Attack[] = [];
  for (let left = random.between(1, MOST_ATTACKS); left > 0; left -= 1) {
    const kind = kindAt(random.fraction() * 100);
    attacks.push({ kind, name: random.pick(CATALOGUE[kind]).name, seed: random.seed() });
  }
  return { run, attacks };
}

function kindAt(place: number): AttackKind {
  let sum = 0;
  for (const [kind, weight] of WEIGHTS) {
    sum += weight;
    if (place < sum) return kind;
  }
  return 'tenant-api';
}

/** For people. */
export function describePlan({ run, attacks }: RunPlan): string {
  return `run ${run}: ${attacks.map(({ kind, name }) => `${kind}: ${name}`).join('; ')}`;
}
