import { SOURCES } from './registry.ts';
import type { TenantCluster } from './tenant-cluster.ts';
import type { OwnershipClaim } from './tenant-source.ts';
import { CONTROL_PLANE_APPS, CONTROL_PLANE_HELPER_APPS } from './vcluster/selection.ts';

/** What of an object says that it is a part of a control plane. */
interface ControlPlaneLabels {
  readonly app?: string | undefined;
  /** What labels of another kind of tenants say, as `claimText` writes it. */
  readonly claim?: string | undefined;
  /** Name of the StatefulSet or Deployment that runs a pod, `''` where none does; absent for what is no pod. */
  readonly runBy?: string | undefined;
}

/** Whether labels that anybody can write name a part of a control plane. */
export function hasControlPlaneLabels({ app, claim }: ControlPlaneLabels): boolean {
  if (claim !== undefined && readClaim(claim).part === 'control-plane') return true;
  return isApp(CONTROL_PLANE_APPS, app) || isApp(CONTROL_PLANE_HELPER_APPS, app);
}

/** Whether `app` is that of a control plane's own workloads. */
export function isControlPlaneApp(app: string | undefined): boolean {
  return isApp(CONTROL_PLANE_APPS, app);
}

/** Charts name the other workloads of a control plane `<release>-etcd`, `-api` and `-controller`. */
const PART_PREFIX = 'vcluster-';

/**
 * Whether a workload of the tenant cluster's control plane runs the object: one that discovery has found, or
 * one of its other parts by the name that the chart gives it. Labels alone decide for volumes and Services, which no
 * workload runs, and in what older releases wrote to the journal.
 */
export function isRunBy(
  { name, workloads }: Pick<TenantCluster, 'name' | 'workloads'>,
  { app = '', runBy }: ControlPlaneLabels,
): boolean {
  if (runBy === undefined || workloads === undefined || workloads.includes(runBy)) return true;
  return app.startsWith(PART_PREFIX) && runBy === `${name}-${app.slice(PART_PREFIX.length)}`;
}

/**
 * Whether the object is a pod that takes or restores a snapshot of the control plane: nothing runs it, so that its label
 * alone says so. In a namespace that a key gives to a tenant, that tenant may have written the label.
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

/** The first claim of any kind, as one text that can be shared and compared; undefined where there is none. */
export function claimText(label: (key: string) => string | undefined): string | undefined {
  for (const claim of CLAIMS) {
    const found = claim(label);
    if (found !== undefined) return `${found.kind}/${found.part}/${found.name}`;
  }
  return undefined;
}

/** What {@link claimText} has written. A value of a label has no slash. */
export function readClaim(text: string): Pick<OwnershipClaim, 'name'> & {
  readonly kind: string;
  readonly part: OwnershipClaim['part'];
} {
  const [kind = '', part, name = ''] = text.split('/');
  return { kind, part: part === 'control-plane' ? part : 'tenant', name };
}
