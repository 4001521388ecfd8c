import { isIP } from 'node:net';
import { isSubdomain } from './kubernetes-names.ts';
import { invalid, type Parser, valid } from './parser.ts';

/** `host` is `''` for all addresses of the machine; port 0 lets the system choose one. */
export interface ListenAddress {
  readonly host: string;
  readonly port: number;
}

const FORM = /^(?:\[([0-9a-fA-F:.]+)\]|([^[\]:]*)):(\d{1,5})$/;
const MEND = 'write :8080, 127.0.0.1:8080 or [::1]:8080';

/** `host:port`, the host optional (spec appendix, LISTEN_ADDR). */
export function listenAddress(): Parser<ListenAddress> {
  return {
    accepts: '`:port` or `host:port`',
    parse(text) {
      const match = FORM.exec(text);
      if (match === null) return invalid('not a listen address', MEND);
      const [, bracketed, plain = '', digits = ''] = match;
      const port = Number(digits);
      if (port > 65_535) return invalid('not a port', 'use a port of at most 65535');
      if (bracketed !== undefined) {
        if (isIP(bracketed) !== 6) return invalid('not an IPv6 address', MEND);
        return valid({ host: bracketed, port });
      }
      if (plain !== '' && isIP(plain) !== 4 && (!isSubdomain(plain) || /^[\d.]+$/.test(plain))) {
        return invalid('not a host', MEND);
      }
      return valid({ host: plain, port });
    },
  };
}
