/** What one client, and all clients together, may ask of the server (security D.11 and D.12). */
export interface HttpLimits {
  /** Requests a second of one client, by token or else by address; undefined switches the limit off. */
  readonly requestsPerSecond: number | undefined;
  /** From the first byte of a request to the end of its headers. */
  readonly headersTimeoutMs: number;
  /** To the end of its body: 10 MiB at 350 KiB a second. */
  readonly requestTimeoutMs: number;
  readonly connectionsCheckingIntervalMs: number;
  /** Between requests; longer than the idle time-out of common load balancers. */
  readonly keepAliveTimeoutMs: number;
  /** Without a byte moving in either direction. */
  readonly idleTimeoutMs: number;
  readonly maxConnections: number;
  readonly maxHeaderBytes: number;
  /** For requests under way when the server is told to stop (the earlier release's grace). */
  readonly stopGraceMs: number;
}

export const DEFAULT_LIMITS: HttpLimits = {
  requestsPerSecond: 2000,
  headersTimeoutMs: 5000,
  requestTimeoutMs: 30_000,
  connectionsCheckingIntervalMs: 1000,
  keepAliveTimeoutMs: 65_000,
  idleTimeoutMs: 60_000,
  maxConnections: 1024,
  maxHeaderBytes: 8 * 1024,
  stopGraceMs: 10_000,
};
