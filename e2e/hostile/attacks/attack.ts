/** Where an attack comes from. */
export type AttackKind =
  | 'tenant-api'
  | 'kubeconfig'
  | 'host'
  | 'peer'
  | 'webhook'
  | 'vendor'
  | 'broker'
  | 'token'
  | 'credit';

/** One attack of a run; its name says which generator, its seed what that makes of it. */
export interface Attack {
  readonly kind: AttackKind;
  readonly name: string;
  readonly seed: number;
}

/** What one run does, wholly given by the suite's seed and the run's number. */
export interface RunPlan {
  readonly run: number;
  readonly attacks: readonly Attack[];
}

/** The name of a run's tenant cluster and of its namespace. */
export function clusterOf(run: number): string {
  return `hostile-${run}`;
}
