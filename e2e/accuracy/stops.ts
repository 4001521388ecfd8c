/** What changes while the operator is down. */
export interface StopScene {
  /** Makes what will change. */
  prepare(): Promise<void>;
  /** Changes it: the operator is down. */
  change(): Promise<void>;
}
