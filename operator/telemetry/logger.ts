/** Fields beside a log message; values that carry secrets are masked by the logger. */
export type LogFields = Readonly<Record<string, unknown>>;

/**
 * The logger every component is given. Messages begin with the component's prefix, such as
 * `[discovery]` (docs/reference/troubleshooting.md#log-lines), are one line and never carry a secret.
 */
export interface Logger {
  debug(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
}
