/** The path of a request fit for a log line: without its query. */
export function redactPath(path: string): string {
  return path.split(/[?#]/, 1)[0] ?? '';
}
