/** A URL fit for a log line: no credentials, no query, no fragment. Text that is no URL shows as such. */
export function redactUrl(url: string): string {
  if (!URL.canParse(url)) return '(not a URL)';
  const { protocol, host, pathname } = new URL(url);
  return `${protocol}//${host}${pathname}`;
}

/** The path of a request fit for a log line: without its query. */
export function redactPath(path: string): string {
  return path.split(/[?#]/, 1)[0] ?? '';
}
