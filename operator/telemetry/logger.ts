/** Fields of a log message. The logger masks secrets in them. */
export type LogFields = Readonly<Record<string, unknown>>;

/**
 * The logger of every component. Messages begin with the component's prefix, such as `[discovery]`
 * (docs/reference/troubleshooting.md#log-lines). They are one line and never contain a secret.
 */
export interface Logger {
  debug(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
}
