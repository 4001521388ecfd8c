import { readClaim } from './claims.ts';
import type { TenantCluster } from './tenant-cluster.ts';
import { CONTROL_PLANE_APPS, CONTROL_PLANE_HELPER_APPS } from './vcluster/selection.ts';

/** What of an object says that it is a part of a control plane. */
export interface ControlPlaneLabels {
  readonly app?: string | undefined;
  /** What labels of another kind of tenants say, as `claimText` writes it. */
  readonly claim?: string | undefined;
  /** Name of the StatefulSet or Deployment that runs a pod, `''` where none does; absent for what is no pod. */
  readonly runBy?: string | undefined;
}

/** Whether labels that anybody can write name a part of a control plane. */
export function looksLikeControlPlane({ app, claim }: ControlPlaneLabels): boolean {
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
