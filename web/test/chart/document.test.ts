import { expect, test } from 'vitest';
import { documentOf, escaped } from '../../src/lib/chart/document';

const EVIL = '<script>alert("1")</script> & \'x\'';

test('a document has texts, pictures and rows, and none of them is markup', () => {
  const file = documentOf(`Disk full ${EVIL}`, '2026-01-01', [
    { title: 'What happened', text: `db1 was full.\n${EVIL}`, query: '', picture: null, rows: [] },
    { title: 'Errors', text: '', query: `a${EVIL} | stats count() n`, picture: 'data:image/png;base64,AAAA', rows: [] },
    { title: EVIL, text: '', query: 'b', picture: 'data:text/html,<b>', rows: Array.from({ length: 120 }, (_, n) => ({ n: String(n), [EVIL]: EVIL })) },
    { title: '', text: '', query: 'c', picture: null, rows: [] },
  ]);
  expect(file).not.toContain('<script');
  expect(file).toContain(`<h1>Disk full ${escaped(EVIL)}</h1>`);
  expect(file).toContain('<img alt="Errors" src="data:image/png;base64,AAAA">');
  expect(file).not.toContain('data:text/html');
  expect(file).toContain(`<p>db1 was full.<br>${escaped(EVIL)}</p>`);
  expect(file).toContain('and 20 more rows');
  expect(file).toContain('<p>No rows.</p>');
  expect(file).toContain("default-src 'none'");
});

test('texts keep their headings, lists and code, and a part says its range', () => {
  const text = `# Cause ${EVIL}\n- one **two**\n- \`three\`\n\n1. first\n\`\`\`\n${EVIL}\n\`\`\`\nthe end`;
  const file = documentOf('A', '', [
    { title: '', text, query: '', picture: null, rows: [] },
    { title: 'B', text: '', query: 'b', picture: null, rows: [{ n: '1' }], note: `10:00 ${EVIL}`, left: 7 },
  ]);
  expect(file).not.toContain('<script');
  expect(file).toContain(`<h2>Cause ${escaped(EVIL)}</h2>`);
  expect(file).toContain('<ul><li>one <strong>two</strong></li><li><code>three</code></li></ul>');
  expect(file).toContain('<ol><li>first</li></ol>');
  expect(file).toContain(`<pre>${escaped(EVIL)}</pre>`);
  expect(file).toContain('<p>the end</p>');
  expect(file).toContain(`<p class="note">10:00 ${escaped(EVIL)}</p>`);
  expect(file).toContain('and 7 more rows');
});
