//! The e-mail that a buyer gets.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    os::unix::fs::PermissionsExt,
    path::Path,
    sync::mpsc::{Receiver, Sender, channel},
    thread,
    time::Duration,
};

use boxoffice::queue;
use chrono::Utc;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{Process, Shop, order, wait_until};

/// Mails in a spool folder by the order's id, once there are `count` of them.
fn mails(spool: &Path, count: usize) -> Vec<(String, String)> {
    let mut mails = Vec::new();
    wait_until("the mails are there", || {
        let entries = fs::read_dir(spool).into_iter().flatten().map(Result::unwrap);
        let whole = entries.filter(|entry| entry.path().extension().is_some_and(|extension| extension == "eml"));
        mails = whole
            .map(|entry| (entry.path().file_stem().unwrap().to_string_lossy().into_owned(), fs::read_to_string(entry.path()).unwrap()))
            .collect();
        mails.len() >= count
    });
    mails.sort();
    mails
}

fn worker(shop: &Shop, spool: &TempDir) -> Process {
    let spool = spool.path().to_str().unwrap();
    let arguments = ["--database-url", shop.database.url(), "--spool-dir", spool, "--public-url", "https://tickets.example.org"];
    Process::work(&[&arguments[..], &["--mail-from", "Old Opera <tickets@example.org>"]].concat())
}

fn id(body: &Value) -> String {
    body["id"].as_str().unwrap().to_owned()
}

#[test]
fn a_buyer_gets_one_mail_with_each_ticket_and_the_link() {
    let (shop, spool) = (Shop::open(), tempfile::tempdir().unwrap());
    shop.event(
        "gala",
        json!({"venue": "Old Opera", "starts_at": "2027-03-12T20:00", "time_zone": "Europe/Berlin"}),
        &[("standard", 4_500, 5)],
    );
    let bought = shop.buy(2).json();
    let _worker = worker(&shop, &spool);
    let (order, mail) = mails(spool.path(), 1).remove(0);
    assert_eq!(order, id(&bought));
    let head = mail.split("\r\n\r\n").next().unwrap();
    for line in ["From: \"Old Opera\" <tickets@example.org>", "To: Ada <ada@example.org>", "Subject: Your 2 tickets for Gala"] {
        assert!(head.contains(line), "{line}: {head}");
    }
    assert!(head.contains(&format!("Message-ID: <{order}.confirmation@example.org>")), "{head}");
    let text = quoted_printable(&mail);
    for ticket in bought["tickets"].as_array().unwrap() {
        assert!(text.contains(ticket["code"].as_str().unwrap()), "{text}");
    }
    assert!(text.contains("Fri 12 March 2027, 20:00 (Europe/Berlin)") && text.contains("Old Opera") && text.contains("€90.00"), "{text}");
    assert!(text.contains(&format!("https://tickets.example.org/events/gala/orders/{order}?key=")), "{text}");
    assert_eq!(mail.matches("Content-Type: image/png").count(), 2, "a QR code each");
    assert!(mail.contains("Content-ID: <ticket-1>") && text.contains("cid:ticket-1"), "{mail}");
}

#[test]
fn a_hold_is_confirmed_by_mail_when_it_is_bought_and_never_if_it_is_not() {
    let (shop, spool) = (Shop::open(), tempfile::tempdir().unwrap());
    shop.gala(&[("standard", 4_500, 9)]);
    let hold = || shop.client.post("/api/v1/events/gala/holds", &order(1));
    let (bought, released) = (hold(), hold());
    let call =
        |made: &crate::support::Reply, what: &str| shop.client.post(&format!("{}/{what}", made.header("location")), &json!({})).status;
    assert_eq!((call(&bought, "confirm"), call(&released, "cancel")), (200, 200));
    let _worker = worker(&shop, &spool);
    let last = shop.buy(1).json();
    let expected = mails(spool.path(), 2).into_iter().map(|(order, _)| order).collect::<Vec<_>>();
    let mut orders = vec![id(&bought.json()), id(&last)];
    orders.sort();
    assert_eq!(expected, orders);
}

/// What a mail server says, by the number of the connection: with what it greets, and what it answers to a sender.
type Says = fn(usize) -> (&'static str, &'static str);

const WELCOME: &str = "220 mail.example.org";

/// A mail server that takes every mail from a sender that it says 250 to.
fn mail_server(says: Says) -> (u16, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (send, receive) = channel();
    thread::spawn(move || {
        for (number, stream) in listener.incoming().map_while(Result::ok).enumerate() {
            let _ = take_mail(&stream, says(number), &send);
        }
    });
    (port, receive)
}

fn take_mail(stream: &TcpStream, (greeting, to_sender): (&str, &str), send: &Sender<String>) -> std::io::Result<()> {
    let (mut reader, mut writer) = (BufReader::new(stream), stream);
    write!(writer, "{greeting}\r\n")?;
    let mut line = String::new();
    while reader.read_line(&mut line)? > 0 {
        match line.split([' ', '\r']).next().unwrap() {
            "EHLO" => write!(writer, "250-mail.example.org\r\n250 8BITMIME\r\n")?,
            "MAIL" => write!(writer, "{to_sender}\r\n")?,
            "DATA" => {
                write!(writer, "354 go on\r\n")?;
                let mut mail = String::new();
                while !mail.ends_with("\r\n.\r\n") {
                    reader.read_line(&mut mail)?;
                }
                send.send(mail).unwrap();
                write!(writer, "250 taken\r\n")?;
            }
            "QUIT" => return write!(writer, "221 bye\r\n"),
            _ => write!(writer, "250 fine\r\n")?,
        }
        line.clear();
    }
    Ok(())
}

#[test]
fn mail_goes_to_the_mail_server_and_again_if_it_was_busy() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 5)]);
    let (port, taken) = mail_server(|number| (WELCOME, if number == 0 { "451 try again later" } else { "250 fine" }));
    let url = format!("smtp://127.0.0.1:{port}");
    let _worker = Process::work(&["--database-url", shop.database.url(), "--smtp-url", &url]);
    let bought = shop.buy(1).json();
    let mail = taken.recv_timeout(Duration::from_secs(60)).unwrap();
    assert!(mail.contains(&format!("Message-ID: <{}.confirmation@localhost>", id(&bought))), "{mail}");
    wait_until("all is done", || super::states(&shop.database).iter().all(|(state, _)| state == "DONE"));
    assert!(taken.try_recv().is_err(), "once");
}

/// It may be us whom a mail server has nothing to do with, until somebody mends that: no mail is given up for it, and they do not ask one by one.
#[test]
fn a_mail_server_that_lets_nobody_in_has_all_mail_wait() {
    const ORDERS: usize = 6;
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, ORDERS.try_into().unwrap())]);
    // The second connection is the question whether it is us.
    let (port, taken) = mail_server(|number| (if number < 2 { "554 go away" } else { WELCOME }, "250 fine"));
    (0..ORDERS).for_each(|_| assert_eq!(shop.buy(1).status, 201));
    let _worker =
        Process::work(&["--database-url", shop.database.url(), "--smtp-url", &format!("smtp://127.0.0.1:{port}"), "--workers", "1"]);
    let lanes = || queue::lanes(&mut shop.database.connect(), Utc::now()).unwrap();
    let of_mail = || lanes().into_iter().find(|lane| lane.name == "confirmation");
    wait_until("all mail rests", || of_mail().is_some_and(|lane| lane.created == 6 && lane.rests_until.is_some()));
    assert!(taken.try_recv().is_err());
    shop.sql("UPDATE job_lanes SET rests_until = NULL; UPDATE jobs SET run_at = now() WHERE state = 'CREATED'");
    for _ in 0..ORDERS {
        taken.recv_timeout(Duration::from_secs(60)).unwrap();
    }
    wait_until("all is done", || super::states(&shop.database).iter().all(|(state, _)| state == "DONE"));
}

#[test]
fn a_mail_that_is_refused_for_good_is_given_up_and_keeps_no_other_waiting() {
    let shop = Shop::open();
    shop.gala(&[("standard", 4_500, 5)]);
    let (port, taken) = mail_server(|number| (WELCOME, if number == 0 { "550 no" } else { "250 fine" }));
    let _worker = Process::work(&["--database-url", shop.database.url(), "--smtp-url", &format!("smtp://127.0.0.1:{port}")]);
    assert_eq!(shop.buy(1).status, 201);
    wait_until("it is given up", || super::states(&shop.database).iter().any(|(state, _)| state == "FAILED"));
    assert_eq!(shop.buy(1).status, 201);
    taken.recv_timeout(Duration::from_secs(60)).unwrap();
}

#[test]
fn mail_in_a_spool_folder_is_nobody_elses() {
    let (shop, home) = (Shop::open(), tempfile::tempdir().unwrap());
    shop.gala(&[("standard", 4_500, 5)]);
    let spool = home.path().join("mail/spool");
    let _worker = Process::work(&["--database-url", shop.database.url(), "--spool-dir", spool.to_str().unwrap()]);
    let order = id(&shop.buy(1).json());
    mails(&spool, 1);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&spool), mode(&spool.join(format!("{order}.eml"))) & 0o007), (0o700, 0));
    assert_eq!(fs::read_dir(spool.join(".unfinished")).unwrap().count(), 0);
}

/// Workers are killed again and again while orders come in: each order is confirmed, once.
#[test]
fn workers_that_are_killed_lose_no_confirmation() {
    const ORDERS: usize = 60;
    let (shop, spool) = (Shop::open(), tempfile::tempdir().unwrap());
    shop.gala(&[("standard", 4_500, 500)]);
    let mut orders = Vec::new();
    for _ in 0..4 {
        let worker = worker(&shop, &spool);
        orders.extend((0..ORDERS / 4).map(|_| id(&shop.buy(1).json())));
        let seen = orders.len() / 3;
        mails(spool.path(), seen);
        worker.kill();
        // What the killed one had taken is another's when its lease has run out, which the test does not wait for.
        shop.sql("UPDATE jobs SET lease_until = now() WHERE state = 'WORKING'");
    }
    let _worker = worker(&shop, &spool);
    orders.sort();
    assert_eq!(mails(spool.path(), ORDERS).into_iter().map(|(order, _)| order).collect::<Vec<_>>(), orders);
    wait_until("all is done", || super::states(&shop.database).iter().all(|(state, _)| state == "DONE"));
}

/// The text of a mail without the soft line breaks and escapes of its encoding.
fn quoted_printable(mail: &str) -> String {
    let bytes = mail.replace("=\r\n", "").into_bytes();
    let mut text = Vec::with_capacity(bytes.len());
    let mut rest = bytes.as_slice();
    while let Some((first, tail)) = rest.split_first() {
        let escaped = tail.get(..2).filter(|_| *first == b'=').and_then(|digits| std::str::from_utf8(digits).ok());
        match escaped.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                text.push(byte);
                rest = &tail[2..];
            }
            None => {
                text.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&text).into_owned()
}
