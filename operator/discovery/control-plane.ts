import { SOURCES } from './registry.ts';
import type { TenantCluster } from './tenant-cluster.ts';
import type { OwnershipClaim } from './tenant-source.ts';
import { CONTROL_PLANE_APPS, CONTROL_PLANE_HELPER_APPS } from './vcluster/selection.ts';

/** The labels of an object that can make it part of a control plane. */
export interface ControlPlaneLabels {
  readonly app?: string;
  /** The owner according to the labels of another kind of tenants, as `claimText` writes it. */
  readonly claim?: string;
  /**
   * StatefulSet, DaemonSet or Deployment that runs the pod, `''` if there is none. Only set for
   * pods that look like a control plane's.
   */
  readonly runBy?: string;
}

/** Returns true for control plane labels, which anybody can write. */
export function hasControlPlaneLabels({ app, claim }: ControlPlaneLabels): boolean {
  if (claim !== undefined && readClaim(claim).part === 'control-plane') return true;
  return isApp(CONTROL_PLANE_APPS, app) || isApp(CONTROL_PLANE_HELPER_APPS, app);
}

/** Returns true if `app` is that of a control plane's workloads. */
export function isControlPlaneApp(app: string | undefined): boolean {
  return isApp(CONTROL_PLANE_APPS, app);
}

/** Charts name a control plane's other workloads `<release>-etcd`, `-api` and `-controller`. */
const PART_PREFIX = 'vcluster-';

/**
 * Returns true if a workload of the tenant cluster's control plane runs the object. Such a workload
 * was discovered, or has the name that the chart gives to another part. Volumes and Services have
 * no workload, and journals of older releases recorded none: labels decide.
 */
export function isRunBy(
  { name, workloads }: Pick<TenantCluster, 'name' | 'workloads'>,
  { app = '', runBy }: ControlPlaneLabels,
): boolean {
  if (runBy === undefined || workloads === undefined || workloads.includes(runBy)) return true;
  return app.startsWith(PART_PREFIX) && runBy === `${name}-${app.slice(PART_PREFIX.length)}`;
}

/**
 * Returns true for a pod that takes or restores a snapshot of the control plane. It has no
 * workload, so only its label shows it. In a namespace that a key gives to a tenant, the tenant may
 * have written the label.
 */
export function isHelper(
  { namespaceTenant }: Pick<TenantCluster, 'namespaceTenant'>,
  { app, runBy }: ControlPlaneLabels,
): boolean {
  return isApp(CONTROL_PLANE_HELPER_APPS, app) && !runBy && namespaceTenant === undefined;
}

function isApp(apps: readonly string[], app: string | undefined): boolean {
  return app !== undefined && apps.includes(app);
}

const CLAIMS = SOURCES.flatMap(({ claim }) => claim ?? []);

/** The first claim of any kind, as one text that can be compared; undefined if there is none. */
export function claimText(label: (key: string) => string | undefined): string | undefined {
  for (const claim of CLAIMS) {
    const found = claim(label);
    if (found !== undefined) return `${found.kind}/${found.part}/${found.name}`;
  }
  return undefined;
}

/** Parses {@link claimText}. A label value contains no slash. */
export function readClaim(text: string): Pick<OwnershipClaim, 'name'> & {
  readonly kind: string;
  readonly part: OwnershipClaim['part'];
} {
  const [kind = '', part, name = ''] = text.split('/');
  return { kind, part: part === 'control-plane' ? part : 'tenant', name };
}
