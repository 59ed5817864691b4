"""The words that mail programs write around other people's text, in their users' languages, as patterns of a line.

A language is added here and nowhere else.
"""

import re

# ---------------------------------------------------------------------------------------------------- who is quoted

_VERBS = (
    r"wrote|writes|said|schrieb|schreibt|geschrieben|a écrit|écrit|ha scritto|scrisse|scrive|escribió|ha escrito"
    r"|escribía"
    r"|escreveu|va escriure|schreef|heeft geschreven|skrev|skriver|skrifaði|kirjoitti|kirjutas|napisał(?:\(a\)"
    r"|a)?|pisze"
    r"|napsal(?:\(a\)|a)?|píše|napísal(?:\(a\)|a)?|je napisa[ol](?:\(la\)|la)?|napisao|a scris|írta|ezt írta"
    r"|yazdı|şunu yazdı"
    r"|написал(?:\(а\)|а)?|пише[тш]?|писал(?:\(а\)|а)?|написав|έγραψε|menulis|đã viết|כתב|כתבה|كتب|写道|寫道|写到"
    r"|님이 작성|작성"
    r"|さんは書きました|のメール|wrote in message"
)
# The verb stands at the end, or is followed by a name or a date; a colon ends the line.
WROTE = re.compile(rf"(?:\b|(?<=[^\x00-\x7f]))(?:{_VERBS})(?!\w)[^\n]{{0,120}}[:：][ \t*_]*$", re.IGNORECASE)
# An address in brackets and a colon at the end: whatever the language.
ADDRESSED = re.compile(r"[<(\[][^\s<>()@]+(?:@| at )[^\s<>()]+[>)\]]?[^\n]{0,40}[:：][ \t*_]*$")
DATED = re.compile(
    r"\d{1,2}[:.h]\d{2}|\b(?:19|20)\d\d\b|\d{1,2}[./-]\d{1,2}[./-]\d{2,4}|\d{4}年|\d{1,2}월|,\s*\d{1,2}\s+\w+",
    re.IGNORECASE,
)
# How the line begins on which an attribution begins.
OPENS = re.compile(
    r"[ \t*_-]*(?:On|Am|Um|Den|Le|El|Il|In data|Em|A|Op|W dniu|Dnia|Dne|Dňa|V|På|Þann|Στις|Pada|Vào|Quoting"
    r"|Zitat von|At"
    r"|Il giorno|\d{4}[-./年]|\d{1,2}[./ ]|(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun|Mo|Di|Mi|Do|Fr|Sa|So|lun|mar|mer|jeu"
    r"|ven|sam"
    r"|dim|пн|вт|ср|чт|пт|сб|вс)\w*[.,]? )",
    re.IGNORECASE,
)

# ------------------------------------------------------------------------------------- messages below or passed on

_DASHES = r"[ \t]*(?:[-_=*]{2,}[ \t]*|[—–]+[ \t]*)"
_ORIGINAL = (
    r"Original(?:[- ](?:Message|Appointment))?|Ursprüngliche (?:Nachricht|Mail)|Original[- ]?(?:nachricht|mail)"
    r"|Message d['’]origine"
    r"|Message (?:original|initial)|Mensaje original|Messaggio originale|Mensagem original|Oorspronkelijk bericht"
    r"|Původní (?:zpráva|e-mail)|Pôvodná správa|Oprindelig meddelelse|Ursprungligt meddelande|Opprinnelig melding"
    r"|Alkuperäinen viesti|Wiadomość oryginalna|Oryginalna wiadomość|Исходное сообщение|Оригинальное сообщение"
    r"|Оригінальне повідомлення|Eredeti üzenet|Özgün İleti|Orijinal Mesaj|Mesaj original|Αρχικό μήνυμα"
    r"|原始邮件|原始郵件|原邮件|元のメッセージ|Original ?メッセージ|원본 메시지|Pesan Asli"
)
_FORWARDED = (
    r"(?:start of |begin )?Forwarded (?:message|mail|by)|Weitergeleitete (?:Nachricht|Mail)|Message (?:transféré"
    r"|transmis|réexpédié)"
    r"|Mensaje reenviado|Messaggio inoltrato|Mensagem encaminhada|Doorgestuurd bericht|Přeposlaná zpráva"
    r"|Preposlaná správa"
    r"|Videresendt (?:meddelelse|melding)|Vidarebefordrat meddelande|Vidarebefordrat mejl|Välitetty viesti"
    r"|Wiadomość przekazana|Przekazana wiadomość|Пересланное сообщение|Пересылаемое сообщение"
    r"|Переслане повідомлення|Továbbított üzenet|İletilen (?:mesaj|ileti)|Yönlendirilmiş ileti|Mesaj redirecționat"
    r"|转发的邮件|转发邮件|已转发邮件|轉寄郵件|転送されたメッセージ|전달된 메(?:시지|일)|Pesan terusan"
)
ORIGINAL = re.compile(rf"{_DASHES}(?:{_ORIGINAL})[ \t:]*(?:[-_=*—–]*)[ \t]*$", re.IGNORECASE)
FORWARDED = re.compile(rf"{_DASHES}(?:{_FORWARDED})[^\n]{{0,80}}?[ \t:]*[-_=*—–]*[ \t]*$", re.IGNORECASE)
# Apple Mail writes a sentence.
BEGIN_FORWARDED = re.compile(
    r"[ \t]*(?:(?:Begin )?forwarded message|Anfang der weitergeleiteten (?:Nachricht|E-?Mail)"
    r"|Début du (?:message (?:réexpédié|transféré)"
    r"|mail transféré)|Inicio del mensaje reenviado|Inizio (?:del )?messaggio inoltrato"
    r"|Início da mensagem (?:reencaminhada|encaminhada)"
    r"|Begin doorgestuurd bericht|Początek przekazanej wiadomości|Начало (?:переадресованного"
    r"|пересылаемого) сообщения"
    r"|Vidarebefordrat (?:brev|mejl)|Start på videresendt (?:besked|melding)|Välitetty viesti alkaa"
    r"|Začátek přeposílané zprávy"
    r"|İletilen ileti başlangıcı|転送されたメッセージ|下面是被转发的邮件|전달된 메시지 시작)[ \t]*[:：][ \t]*$",
    re.IGNORECASE,
)

_FIELDS = {
    "from": r"From|Von|De|Da|Van|Od|От(?: кого)?|Від|Från|Fra|Lähettäjä|Saatja|Feladó|Kimden|Gönderen|Από|De la"
    r"|Dari|差出人"
    r"|发件人|寄件者|寄件人|보낸 ?사람|보낸이|送信者",
    "sent": r"Sent|Date|Gesendet|Datum|Envoyé(?: le)?|Enviado(?: el| em)?|Fecha|Inviato|Data|Verzonden|Wysłano"
    r"|Data wysłania"
    r"|Отправлено|Дата|Надіслано|Skickat|Sendt|Dato|Lähetetty|Päiväys|Odesláno|Odoslané|Dátum|Elküldve|Gönderildi"
    r"|Tarih"
    r"|Trimis|Ημερομηνία|Στάλθηκε|Tanggal|Dikirim|送信日時|日付|日時|发送时间|日期|傳送日期|寄件日期|보낸 ?날짜|날짜",
    "to": r"To|An|À|A|Para|Aan|Do|Кому|Till|Til|Vastaanottaja|Komu|Pro|Címzett|Kime|Către|Προς|Kepada|宛先|收件人"
    r"|收件者|받는 ?사람",
    "subject": r"Subject|Betreff|Objet|Asunto|Oggetto|Assunto|Onderwerp|Temat|Тема|Ämne|Emne|Aihe|Předmět|Predmet"
    r"|Tárgy"
    r"|Konu|Subiect|Θέμα|Subjek|Perihal|件名|主题|主旨|主題|제목",
    "cc": r"Cc|Bcc|Kopie|Copie|Cópia|CC|DW|Копия|Kopia|Kopi|Kopio|Kopia do|Másolatot kap|Bilgi|抄送|副本|참조"
    r"|Reply-To|Antwort an"
    r"|Organization|Newsgroups|Attachments|Anlagen|Importance|Wichtigkeit|Priority|Gelöscht",
}
FIELD = re.compile(
    r"[ \t]*[*_]{0,2}(?:"
    + "|".join(f"(?P<{name}>{words})" for name, words in _FIELDS.items())
    + r")[*_]{0,2}[ \t\u00a0]?[:：]"
    r"[*_]{0,2}(?=\s|$|[^/\d])",
    re.IGNORECASE,
)

# ------------------------------------------------------------------------------------------------------ at the end

DEVICE = re.compile(
    r"[ \t]*(?:"
    r"(?:Sent|Posted) (?:from|via|using|with) (?:my |the )?(?:\w+ ){0,3}?(?:iPhone|iPad|iPod|BlackBerry\S*"
    r"|Android\b|Samsung|Galaxy|Nokia"
    r"|Windows Phone|mobile|phone|Mail\b|Outlook|Yahoo|Proton|Huawei|Xiaomi|Pixel|Nexus|HTC|Sony|handheld"
    r"|T-Mobile|Verizon)"
    r"|Get (?:Outlook|BlueMail|TypeApp) for |Outlook (?:für|pour|para|per|voor) (?:iOS|Android)"
    r"|Télécharger Outlook pour"
    r"|Obten(?:er|ha|ga) (?:el )?Outlook para|Scarica Outlook per|Outlook para |Outlook voor |Hämta Outlook för"
    r"|Pobierz aplikację Outlook"
    r"|Von meinem \S+(?: \S+){0,3} (?:gesendet|geschickt)|Gesendet (?:von|mit|über) "
    r"|Diese Nachricht wurde von meinem "
    r"|Envoyé (?:de|depuis|à partir d) ?\S+|Enviado (?:desde|do|de|a partir do|a través de) (?:mi|meu|el|o|un|um"
    r"|Yahoo|Outlook|iPhone)"
    r"|Inviato da(?:l mio)? \S+|Verstuurd vanaf |Verzonden (?:vanaf|met) |Skickat från |Sendt fra |Sendt med "
    r"|Lähetetty \S+sta\b"
    r"|Lähetetty \S+(?:lta|ltä)\b|Wysłan[eoy] z |Odesláno z |Odoslané z |Отправлено (?:с|из) |Надіслано з "
    r"|Küldve |Trimis de pe "
    r"|\S+(?: \S+){0,2}['’]?(?:dan|den|ımdan|umdan) gönderildi|Στάλθηκε από |Dikirim dari |iPhoneから送信"
    r"|iPadから送信|発自|发自我?的?|從我的"
    r"|나의 \S+에서 보냄|내 \S+에서 보냄|\S+에서 보냄)",
    re.IGNORECASE,
)
LIST = re.compile(
    r"mailing[- ]?list|unsubscri|list-?info|subscribed to|subscription options|-request@|-unsubscribe[@+]"
    r"|groups\.google|yahoogroups"
    r"|list archives?|Mailingliste|abmelden|abbestellen|se désabonner|désinscri|liste de diffusion"
    r"|cancelar (?:la )?suscripci|darse de baja"
    r"|lista de (?:correo|discussão)|annullare l['’]iscrizione|disiscri|afmelden|mailinglijst|lista dyskusyjna"
    r"|wypisa|отписаться|рассылк"
    r"|postingliste|avregistrera|postituslista|退订|退訂|メーリングリスト|구독",
    re.IGNORECASE,
)
GATEWAY = re.compile(
    r"(?:th(?:is|e) (?:e-?mail|message|communication|information contained|transmission|information in)"
    r"|(?:e-?mail )?confidentiality"
    r"|disclaimer|important notice|notice:|virus-free|scanned by|checked (?:for viruses )?by"
    r"|caution: this (?:e-?mail|message) originated"
    r"|external e-?mail|diese (?:e-?mail|nachricht|mitteilung)|der inhalt dieser|wichtiger hinweis|ce (?:message"
    r"|courriel|mail|courrier)"
    r"|les informations contenues|este (?:mensaje|correo|e-?mail|mensagem)|esta mensagem|(?:il"
    r"|questo) (?:presente )?messaggio|questa e-?mail"
    r"|le informazioni contenute|dit (?:e-?mail)?bericht|deze e-?mail|de informatie|niniejsz\w+ (?:wiadomość"
    r"|e-?mail)|ta wiadomość"
    r"|настоящее (?:сообщение|письмо)|это (?:сообщение|письмо)|detta (?:meddelande|e-?postmeddelande)"
    r"|denne (?:e-?mail|e-?post|meddelelse)"
    r"|tento e-?mail|tato zpráva|tämä (?:viesti|sähköposti)|此(?:邮件|電子郵件|電郵)|本(?:邮件|メール)|このメール"
    r"|본 메일)",
    re.IGNORECASE,
)
SECRET = re.compile(
    r"confidential|privileged|intended (?:solely|only|recipient|for)|addressee|virus|avast|vertraulich|bestimmt"
    r"|empfänger|confidentiel"
    r"|destinataire|confidencial|destinatario|destinatário|riservat|vertrouwelijk|geadresseerde|bestemd|poufn"
    r"|adresat|конфиденциальн"
    r"|предназначен|konfidentiell|fortrolig|mottag|modtager|mottaker|důvěrn|luottamuksel|vastaanottaj|保密|机密"
    r"|機密|秘密|기밀"
    r"|external|originated outside",
    re.IGNORECASE,
)
