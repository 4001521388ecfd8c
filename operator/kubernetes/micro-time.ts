/** Kubernetes' MicroTime: RFC 3339 in UTC with six decimals. `at` is milliseconds since the epoch. */
export function microTime(at: number): string {
  return new Date(at).toISOString().replace('Z', '000Z');
}
