import type { TenantOverrideSettings } from '../config/settings.ts';
import type { TenantCluster } from '../discovery/tenant-cluster.ts';
import type { ConditionClaim } from './conditions.ts';
import type { TenantOverrideStatus } from './types.generated.ts';
import { readyBySpec, stalledClaims, type Verdict } from './verdict.ts';
import type { TenantsView } from './views.ts';

/** The rest is over HTTP (design 4). */
const MOST_ITEMS = 100;
const MOST_RIVALS = 5;

/** What is known of an override when its status is written. */
export interface OverrideFacts {
  readonly name: string;
  readonly verdict: Verdict;
  readonly tenants: TenantsView;
  /** All overrides in force, this one among them. */
  readonly inForce: readonly TenantOverrideSettings[];
}

/** `Ready`; `Conflicting` and `Stalled` when they hold (design 4). */
export function overrideClaims(facts: OverrideFacts): readonly ConditionClaim[] {
  const ready = readyBySpec(facts.verdict) ?? readyByMatches(facts);
  return [ready, ...conflictingClaims(facts), ...stalledClaims(facts.verdict)];
}

/** The fields of the status beside conditions and generation. */
export function overrideNumbers({ name, tenants }: OverrideFacts): TenantOverrideStatus {
  if (!tenants.known()) return {};
  const ids = matchedBy(name, tenants)
    .map((cluster) => cluster.id)
    .toSorted();
  return { matched: { total: ids.length, items: ids.slice(0, MOST_ITEMS) } };
}

function readyByMatches({ name, tenants }: OverrideFacts): ConditionClaim {
  const type = 'Ready';
  if (!tenants.known()) {
    const message = 'Tenant clusters have not been discovered yet';
    return { type, status: 'Unknown', reason: 'Starting', message };
  }
  if (matchedBy(name, tenants).length === 0) {
    const message = 'In force, and no tenant cluster matches spec.match';
    return { type, status: 'True', reason: 'NothingMatched', message };
  }
  const message = 'In force for the tenant clusters of status.matched';
  return { type, status: 'True', reason: 'InForce', message };
}

/** Of two overrides that match one tenant cluster by the same kind of match, the older holds. */
function conflictingClaims(facts: OverrideFacts): readonly ConditionClaim[] {
  const own = facts.inForce.find(({ name }) => name === facts.name);
  if (own === undefined) return [];
  const names = new Set(matchedBy(facts.name, facts.tenants).flatMap(({ overrides }) => overrides));
  const rivals = facts.inForce
    .filter((other) => other !== own && names.has(other.name))
    .filter((other) => other.match.kind === own.match.kind);
  const older = rivals.filter((other) => isOlder(other, own));
  const [type, status] = ['Conflicting', 'True'] as const;
  if (older.length > 0) {
    const message = `Some of the same tenant clusters are matched by the older ${quoted(older)}, which holds there`;
    return [{ type, status, reason: 'OlderHolds', message }];
  }
  if (rivals.length === 0) return [];
  const message = `Some of the same tenant clusters are matched by the younger ${quoted(rivals)}, which gives way there`;
  return [{ type, status, reason: 'YoungerGivesWay', message }];
}

function matchedBy(name: string, tenants: TenantsView): readonly TenantCluster[] {
  return tenants.clusters().filter(({ overrides }) => overrides.includes(name));
}

function isOlder(a: TenantOverrideSettings, b: TenantOverrideSettings): boolean {
  if (a.createdAt !== b.createdAt) return a.createdAt < b.createdAt;
  return a.name < b.name;
}

function quoted(overrides: readonly TenantOverrideSettings[]): string {
  return overrides
    .map(({ name }) => `"${name}"`)
    .toSorted()
    .slice(0, MOST_RIVALS)
    .join(', ');
}
